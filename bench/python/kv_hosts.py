#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Penstock's KV adapters for vLLM, SGLang and LMCache against what these keep on a local disk themselves.

    PYTHONPATH=CLIENTS:TESTS kv_hosts.py FOLDER [--hosts vllm,sglang,lmcache] [--pairs 5] [--mib 512]
                                       [--sizes 128,2048] [--cached]

vLLM: the jobs of its KV offloading, 16 chunks each and eight at once, ours and its file-system tier.
SGLang: its controller's calls of a storage backend, 16 pages each, from and into its own host memory: ours in place,
HiCacheFile by a copy of each page. LMCache: batches of 16 chunks by its storage backends' calls, ours and
LocalDiskBackend with O_DIRECT. A turn stores so many MiB of new chunks, waits until all are stored, flushes the file
system, drops the files from the page cache, and loads them all. GB/s and CPU seconds a GB; the median of the pairs'
ratios with lowest and highest. With --cached nothing is flushed nor dropped: hosts as they are by default, and ours
with `host_bytes` for all chunks. Theirs make no checksums; ours checks each chunk. A load of other bytes ends the run.
TESTS is python/tests, of which it takes what stands in for torchvision.
"""

import argparse
import os
import random
import shutil
import statistics
import time
from pathlib import Path

import numpy as np
import torch

from kv_sides import KINDS, LMCache, SGLang, Side, VLLM
from turns import drop, figure, there_and_back

DTYPE = torch.bfloat16


class Filled:
    """The memory of a side, whose chunks are new in each turn."""

    def __init__(self, side, count):
        self.side, self._count = side, count

    def keys(self):
        return self.side.keys(random.getrandbits(40) for _ in range(self._count))

    def store(self, keys):
        self.side.store(keys)

    def load(self, keys):
        self.side.load(keys)

    def wipe(self):
        self._before = self.side.memory.copy() if isinstance(self.side, VLLM) else self.side.memory.clone()
        self.side.memory[:] = 0

    def is_right(self):
        return bool((self._before == self.side.memory).all())


class FilledVLLM(Filled):
    def begin(self):
        memory = self.side.memory
        memory[:] = np.random.default_rng().integers(0, 256, memory.shape, dtype=np.uint8)


class FilledSGLang(Filled):
    def begin(self):
        memory, page = self.side.memory, self.side.PAGE
        memory.copy_(torch.randint(0, 1 << 15, (1,)).to(DTYPE) + torch.randn(memory.shape[-1]).to(DTYPE))
        for number in range(self._count):  # So that no page is another's.
            memory[:, :, page * number] = number
        memory[:, :, page * self._count:] = 0  # SGLang's padding, which is never stored.


class FilledLMCache(Filled):
    """LMCache has its memory in objects."""

    def begin(self):
        self._objs = [self.side.made() for _ in range(self._count)]
        for number, obj in enumerate(self._objs):
            obj.tensor.fill_(number)

    def store(self, keys):
        self.side.store(keys, self._objs)

    def _give_up(self):
        for obj in self._objs:
            obj.ref_count_down()
        self._objs = []

    def wipe(self):
        for obj in self._objs:
            obj.tensor.zero_()
        self._give_up()

    def load(self, keys):
        self._objs = self.side.load(keys)

    def is_right(self):
        good = all(bool((obj.tensor == torch.tensor(number).to(DTYPE)).all()) for number, obj in enumerate(self._objs))
        self._give_up()
        return good


FILLED = {VLLM: FilledVLLM, SGLang: FilledSGLang, LMCache: FilledLMCache}


def timed(work, nbytes):
    cpu, began = time.process_time(), time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    return nbytes / 1e9 / seconds, (time.process_time() - cpu) / nbytes * 1e9


def measure(kind, folder, chunk, count, pairs):
    sides = {}
    for name in ("penstock", kind.THEIRS):
        (folder / name).mkdir()
        sides[name] = FILLED[kind](kind(folder / name, chunk, count, name == "penstock"), count)
    found = {(name, what): [] for name in sides for what in ("store", "load")}
    for _, name in there_and_back(sides, pairs):
        side = sides[name]
        keys = side.keys()
        side.begin()
        found[name, "store"].append(timed(lambda: side.store(keys), chunk * count))
        side.wipe()
        if not kind.is_cached:
            os.sync()
            drop(path for path in folder.rglob("*") if path.is_file())
        found[name, "load"].append(timed(lambda: side.load(keys), chunk * count))
        assert side.is_right(), f"{name} loaded other bytes"
    for what in ("store", "load"):
        ours, theirs = found["penstock", what], found[kind.THEIRS, what]
        ratios = [a[0] / b[0] for a, b in zip(ours, theirs, strict=True)]
        middle = [statistics.median(values) for values in (*zip(*ours, strict=True), *zip(*theirs, strict=True))]
        print(f"{kind.__name__:<8}{chunk >> 10:>6} KiB {what:<5}  penstock {middle[0]:.2f} GB/s ({middle[1]:.2f} CPU "
              f"s/GB)   {kind.THEIRS} {middle[2]:.2f} ({middle[3]:.2f})   ratio {figure(ratios)}", flush=True)
    for side in sides.values():
        side.side.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hosts", default="vllm,sglang,lmcache")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--sizes", default="128,2048", help="KiB of a chunk, in powers of two from 64")
    parser.add_argument("--cached", action="store_true")
    options = parser.parse_args()
    Side.is_cached = options.cached
    for host in options.hosts.split(","):
        for size in options.sizes.split(","):
            folder = options.folder / f"kv-{os.getpid()}-{host}-{size}"
            folder.mkdir(parents=True)
            try:
                measure(KINDS[host], folder, int(size) << 10, (options.mib << 10) // int(size), options.pairs)
            finally:
                shutil.rmtree(folder)


if __name__ == "__main__":
    main()
