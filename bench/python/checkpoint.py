#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Saving and loading by torch.distributed.checkpoint: penstock.checkpoint beside torch's own files, and plain writes.

    checkpoint.py FOLDER [--device cuda] [--gib 8] [--tensors 64] [--pairs 3] [--durable]

One rank. The sides take turns, so that all meet the same machine, with nothing left to be written or removed; the
first turn of each does not count, and each saves over what it saved before. Without --durable nobody flushes; with it
fio, where it is installed, tells what the disk takes. A figure is 10^9 bytes a second, the median of the turns with the
lowest and highest behind it. Then saves behind a trainer: how long it stood still.
"""

import argparse
import json
import mmap
import os
import shutil
import statistics
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp

import penstock
from penstock.checkpoint import Saver, leftovers
from penstock.checkpoint.distributed import Reader, Writer
from turns import figure, machine, there_and_back

FILES = 16


def state_of(total, tensors, device):
    rows = max(total // tensors // 8192, 1)
    return {f"layer.{i:05}.weight": torch.randint(0, 256, (rows, 8192), dtype=torch.uint8, device=device)
            .view(torch.bfloat16) for i in range(tensors)}


def plain_write(state, folder, durable):
    """Into as many new files as `penstock.checkpoint` has, each by a thread, without checksums."""
    folder.mkdir(exist_ok=True)
    tensors = list(state.values())

    def write(which):
        (folder / f"{which}").unlink(missing_ok=True)
        with penstock.open(folder / f"{which}", "x") as file:
            at = 0
            for tensor in tensors[which::FILES]:
                at += file.write(tensor, at).bytes
            if durable:
                file.sync()

    with ThreadPoolExecutor(FILES) as threads:
        list(threads.map(write, range(FILES)))


def fio_write(state, folder, direct):
    """The same bytes into as many new files by fio, flushed at the end: its own seconds, without its start."""
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    total = sum(tensor.nbytes for tensor in state.values())
    command = ["fio", "--name=probe", f"--directory={folder}", f"--size={total // FILES}", f"--numjobs={FILES}",
               "--thread", "--rw=write", "--fallocate=none", "--create_on_open=1", "--end_fsync=1",
               "--group_reporting", "--output-format=json"]
    command += ["--direct=1", "--bs=4m", "--ioengine=io_uring", "--iodepth=4"] if direct else ["--bs=1m"]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found["jobs"][0]["write"]["runtime"] / 1e3


class WithoutChecksums:
    """A session that makes none, to see what they cost. What it saves it alone can load."""

    def __getattr__(self, name):
        return getattr(penstock.default_session(), name)

    def crc32c(self, buffer, piece_bytes):
        return [0] * -(-buffer.nbytes // piece_bytes)


def savers(durable):
    def ours(session=None, direct=None):
        def save(state, folder):
            writer = Writer(folder, durable=durable, session=session, direct=direct)
            dcp.save(state, storage_writer=writer, no_dist=True)
        return save

    def stock(threads):
        def save(state, folder):
            writer = dcp.FileSystemWriter(folder, single_file_per_rank=threads == 1, thread_count=threads,
                                          sync_files=durable)
            dcp.save(state, storage_writer=writer, no_dist=True)
        return save

    def plain(state, folder):
        plain_write(state, folder, durable)

    sides = {"penstock.checkpoint": ours(), "without checksums": ours(WithoutChecksums())}
    if durable:
        sides["direct"] = ours(direct=True)
        if shutil.which("fio"):
            sides["fio, through the page cache"] = lambda state, folder: fio_write(state, folder, direct=False)
            sides["fio, direct"] = lambda state, folder: fio_write(state, folder, direct=True)
    return {**sides, "plain writes, 16 files": plain, "FileSystemWriter": stock(1),
            "FileSystemWriter, 8 threads": stock(8)}


def loaders(base):
    def by(reader):
        def load(state, _):
            dcp.load(state, storage_reader=reader(), no_dist=True)
        return load

    return {"penstock.checkpoint": by(lambda: Reader(base / "penstock.checkpoint")),
            "without checksums": by(lambda: Reader(base / "without checksums", session=WithoutChecksums())),
            "FileSystemReader": by(lambda: dcp.FileSystemReader(base / "FileSystemWriter"))}


def settle(nbytes):
    """What others left to be written or removed would hold up who comes next. So would memory that a virtual machine's
    host took back when it was free: touching it anew was found to take four times as long as writing to it."""
    leftovers.wait_for_removals()
    os.sync()
    kinds = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if nbytes < free * 0.8:
        mmap.mmap(-1, nbytes, flags=kinds).close()


def compare(what, sides, state, base, pairs):
    total = sum(tensor.nbytes for tensor in state.values())
    rates = {side: [] for side in sides}
    for number, side in there_and_back(rates, pairs + 1):
        print(f"{what}, turn {number} of {pairs}: {side}", file=sys.stderr)
        torch.cuda.synchronize() if torch.cuda.is_available() else None
        settle(2 * total)
        begin = time.perf_counter()
        seconds = sides[side](state, base / side)  # None but of those that have a clock of their own.
        torch.cuda.synchronize() if torch.cuda.is_available() else None
        if number > 0:
            rates[side].append(total / 1e9 / (seconds or time.perf_counter() - begin))
    first = statistics.median(next(iter(rates.values())))
    for side, samples in rates.items():
        print(f"{what}: {side:28} {figure(samples, ' GB/s', width=7)}, "
              f"first / this {first / statistics.median(samples):.2f}", flush=True)


def behind(state, base, pairs, durable):
    """Beside them: a copy to pinned memory by torch, and the writing alone."""
    total = sum(tensor.nbytes for tensor in state.values())
    pinned = torch.empty(next(iter(state.values())).shape, dtype=torch.bfloat16, pin_memory=True)
    for staging in ("staged", "windowed"):
        stopped, whole, copies = [], [], []
        with Saver(staging, durable=durable) as saver:
            for number in range(pairs + 1):
                settle(2 * total)
                torch.cuda.synchronize()
                begin = time.perf_counter()
                saving = saver.save(state, base / staging)
                progress = saving.result()
                if number > 0:
                    stopped.append(saving.stopped_s)
                    whole.append(time.perf_counter() - begin)
                begin = time.perf_counter()
                for tensor in state.values():
                    pinned.copy_(tensor, non_blocking=True)
                torch.cuda.synchronize()
                copies.append(time.perf_counter() - begin)
        print(f"{staging}: the trainer stood still {figure(stopped, ' s')} of {statistics.median(whole):.2f} s, "
              f"{total / 1e9 / statistics.median(stopped):.1f} GB/s; {saving.staged_bytes} bytes staged, "
              f"{progress.bytes_done - progress.bytes_direct} in the page cache; a copy to pinned memory takes "
              f"{statistics.median(copies):.2f} s, the files were written at {progress.gb_per_s:.1f} GB/s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--gib", type=float, default=8)
    parser.add_argument("--tensors", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--durable", action="store_true")
    said = parser.parse_args()
    warnings.simplefilter("ignore")
    base = said.folder / "penstock-bench-checkpoint"
    base.mkdir(parents=True)
    try:
        state = state_of(int(said.gib * 2**30), said.tensors, said.device)
        gpu = torch.cuda.get_device_name() if said.device != "cpu" else "no GPU"
        print(f"{machine(gpu)}: {said.gib} GiB in {said.tensors} tensors, "
              f"{'durable' if said.durable else 'not flushed'}")
        compare("save", savers(said.durable), state, base, said.pairs)
        before = {name: tensor.clone() for name, tensor in state.items()}
        compare("load", loaders(base), state, base, said.pairs)
        if said.device != "cpu":
            behind(state, base, said.pairs, said.durable)
        for name, tensor in state.items():
            assert torch.equal(tensor.view(torch.int16), before[name].view(torch.int16)), name
    finally:
        shutil.rmtree(base)


if __name__ == "__main__":
    main()
