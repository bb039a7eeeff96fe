#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Penstock's tier of vLLM's KV offloading against vLLM's own file-system tier, through the same jobs.

    PYTHONPATH=CLIENTS kv_tier.py FOLDER [--pairs 5] [--mib 512] [--sizes 128,2048,8192]

Each turn stores so many MiB of new chunks by jobs of 16, eight at once, waits until all have ended, flushes the file
system, drops the files from the page cache, and loads them all. GB/s and CPU seconds a GB; the median of the pairs'
ratios with lowest and highest. vLLM's tier makes no checksums; Penstock's checks each chunk.
"""

import argparse
import mmap
import os
import random
import shutil
import statistics
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from vllm.v1.kv_offload.base import ReqContext, make_offload_key
from vllm.v1.kv_offload.config import (OffloadingCacheConfig, OffloadingConfig, OffloadingModelConfig,
                                       OffloadingParallelConfig)
from vllm.v1.kv_offload.tiering.base import TransferJob
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory

BATCH, AT_ONCE = 16, 8
REQUEST = ReqContext("request")


def spec(chunk):
    config = OffloadingConfig((), chunk, False, {}, "engine", OffloadingModelConfig("model", "bfloat16"),
                              OffloadingCacheConfig(16, 1),
                              OffloadingParallelConfig(0, 1, 1, 1, 1, 1, 0, 1, None, False))
    return SimpleNamespace(config=config, blocks_per_chunk=1,
                           kv_events_config=SimpleNamespace(enable_kv_cache_events=False))


class Side:
    def __init__(self, folder, chunk, memory, config):
        self.folder = folder
        self.tier = SecondaryTierFactory.create_secondary_tier(config, memoryview(memory), spec(chunk))
        self.jobs = 0

    def run(self, call, keys):
        """All keys, by jobs."""
        waiting, under_way = [range(first, min(first + BATCH, len(keys))) for first in range(0, len(keys), BATCH)], 0
        while waiting or under_way:
            while waiting and under_way < AT_ONCE:
                which = waiting.pop()
                self.jobs += 1
                getattr(self.tier, call)(TransferJob(self.jobs, [keys[i] for i in which], np.array(which),
                                                     call == "submit_load", REQUEST))
                under_way += 1
            for result in self.tier.get_finished_jobs():
                assert result.success, (call, result)
                under_way -= 1
            time.sleep(0.0002)

    def drop(self):
        os.sync()
        for path in self.folder.rglob("*"):
            if path.is_file():
                fd = os.open(path, os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)


def timed(work, nbytes):
    cpu, began = time.process_time(), time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    return nbytes / 1e9 / seconds, (time.process_time() - cpu) / nbytes * 1e9


def measure(folder, chunk, count, pairs):
    memory = np.frombuffer(mmap.mmap(-1, chunk * count), dtype=np.uint8).reshape(count, chunk)  # Aligned, as vLLM's.
    memory[:] = np.random.default_rng().integers(0, 256, memory.shape, dtype=np.uint8)
    sides = {
        "penstock": Side(folder / "ours", chunk, memory, {
            "type": "PenstockTier", "module_path": "penstock.integrations.vllm_kv", "folders": str(folder / "ours"),
            "capacity_bytes": 3 * chunk * count + (256 << 20)}),
        "vllm": Side(folder / "theirs", chunk, memory, {"type": "fs", "root_dir": str(folder / "theirs")})}
    found = {(name, what): [] for name in sides for what in ("store", "load")}
    for pair in range(pairs):
        keys = [make_offload_key(random.randbytes(32), 0) for _ in range(count)]
        for name in sorted(sides, reverse=pair % 2 == 0):
            side = sides[name]
            found[name, "store"].append(timed(lambda: side.run("submit_store", keys), chunk * count))
            side.drop()
            before = memory.copy() if pair == 0 else None
            if before is not None:
                memory[:] = 0
            found[name, "load"].append(timed(lambda: side.run("submit_load", keys), chunk * count))
            assert before is None or (memory == before).all(), f"{name} loaded other bytes"
    for what in ("store", "load"):
        ours, theirs = found["penstock", what], found["vllm", what]
        ratios = [a[0] / b[0] for a, b in zip(ours, theirs, strict=True)]
        middle = [statistics.median(values) for values in (*zip(*ours, strict=True), *zip(*theirs, strict=True))]
        print(f"{chunk >> 10:>6} KiB {what:<5}  penstock {middle[0]:.2f} GB/s ({middle[1]:.2f} CPU s/GB)   vllm "
              f"{middle[2]:.2f} ({middle[3]:.2f})   ratio {statistics.median(ratios):.2f} [{min(ratios):.2f} "
              f"{max(ratios):.2f}]", flush=True)
    for side in sides.values():
        side.tier.shutdown()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--sizes", default="128,2048,8192", help="KiB of a chunk")
    options = parser.parse_args()
    for size in options.sizes.split(","):
        folder = options.folder / f"kv-{os.getpid()}-{size}"
        folder.mkdir(parents=True)
        try:
            measure(folder, int(size) << 10, (options.mib << 10) // int(size), options.pairs)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
