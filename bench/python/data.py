#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""penstock.data's prefetcher against torch's DataLoader over np.memmap, by turns: tokens a second, CPU seconds a GB.

    data.py FOLDER [--mib 512] [--pairs 3] [--kib 4,64,256] [--batch-mib 4] [--epochs 1] [--workers 4] [--device cuda]
            [--alone] [--cold]

A file of uint16 tokens in the page cache, shuffled sequences of so many KiB, in batches. A turn is so many epochs, by a
prefetcher or loader that has been through one epoch before, which is not counted. CPU is that of the process and of its
workers. --alone: without the DataLoader. --cold: the page cache is emptied before each turn, of one epoch, and behind
it 16 threads read the file by O_DIRECT, 1 MiB at a time, to tell what the drive gave in that minute. On a GPU it says,
too, how fast pinned memory is copied there.
"""

import argparse
import concurrent.futures
import mmap
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from penstock import data
from turns import drop, figure, there_and_back


class Mapped(torch.utils.data.Dataset):
    def __init__(self, path, length):
        self._tokens = np.memmap(path, np.uint16, "r").reshape(-1, length)

    def __len__(self):
        return len(self._tokens)

    def __getitem__(self, i):
        return torch.from_numpy(self._tokens[i].astype(np.int16))


def cpu_seconds():
    """Of this process, of its workers that ended, and of those that live, which getrusage does not count."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    ticks = 0
    for worker in multiprocessing.active_children():
        ticks += sum(map(int, Path(f"/proc/{worker.pid}/stat").read_text().rpartition(") ")[2].split()[11:13]))
    return sum(each.ru_utime + each.ru_stime for each in used) + ticks / os.sysconf("SC_CLK_TCK")


def timed(epoch, nbytes, epochs):
    """(million tokens a second, CPU seconds a GB, what the tokens add up to)."""
    cpu, began = cpu_seconds(), time.perf_counter()
    total = sum(epoch(number) for number in range(1, 1 + epochs))
    seconds = time.perf_counter() - began
    return nbytes * epochs / 2e6 / seconds, (cpu_seconds() - cpu) / nbytes / epochs * 1e9, total


def consume(batches, device):
    """Looks at each batch where it is; a GPU is waited for at the end alone."""
    total = torch.zeros((), dtype=torch.int64, device=device)
    for tokens in batches:
        total += tokens[:, 0].to(torch.int64).bitwise_and_(0xFFFF).sum()
    return int(total)


def link_gb_per_s(nbytes=1 << 30):
    source, into = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True), torch.empty(nbytes, dtype=torch.uint8,
                                                                                       device="cuda")
    into.copy_(source)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(4):
        into.copy_(source, non_blocking=True)
    torch.cuda.synchronize()
    return 4 * nbytes / 1e9 / (time.perf_counter() - began)


def drive_gb_per_s(path, threads=16, piece=1 << 20):
    """What so many readers get past the page cache."""
    descriptor, nbytes = os.open(path, os.O_RDONLY | os.O_DIRECT), path.stat().st_size

    def read(number):
        memory = mmap.mmap(-1, piece)
        for offset in range(number * piece, nbytes, threads * piece):
            os.preadv(descriptor, [memory], offset)

    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, range(threads)))
    seconds = time.perf_counter() - began
    os.close(descriptor)
    return nbytes / 1e9 / seconds


def measure_cold(path, kib, options):
    length, batch = kib * 512, max((options.batch_mib << 20) // (kib << 10), 1)
    nbytes, turns = path.stat().st_size, []
    with data.Prefetcher(data.RecordIndex.tokens([path], length), batch, device=options.device or "cpu",
                         window_batches=options.window) as prefetcher:
        for turn in range(options.pairs):
            drop([path])
            prefetcher.set_epoch(turn)
            began = time.perf_counter()
            consume((tokens.view(torch.int16) for tokens in prefetcher), options.device)
            ours = nbytes / 1e9 / (time.perf_counter() - began)
            drop([path])
            turns.append((ours, drive_gb_per_s(path)))
    print(f"{kib:>5} KiB  cold: penstock {statistics.median(turn[0] for turn in turns):.2f} GB/s, the drive "
          f"{statistics.median(turn[1] for turn in turns):.2f}   " +
          f"ratio {figure([a / b for a, b in turns])}", flush=True)


def measure(path, kib, options):
    length, batch = kib * 512, max((options.batch_mib << 20) // (kib << 10), 1)
    nbytes, device = path.stat().st_size, options.device
    loader = torch.utils.data.DataLoader(Mapped(path, length), batch, shuffle=True, num_workers=options.workers,
                                         pin_memory=device is not None, persistent_workers=True)
    with data.Prefetcher(data.RecordIndex.tokens([path], length), batch, device=device or "cpu",
                         window_batches=options.window) as prefetcher:

        def by_penstock(epoch):
            prefetcher.set_epoch(epoch)
            return consume((tokens.view(torch.int16) for tokens in prefetcher), device)

        def by_loader(_):
            return consume((tokens.to(device, non_blocking=True) if device else tokens for tokens in loader), device)

        sides = [by_penstock] if options.alone else [by_loader, by_penstock]
        found = {side: [] for side in sides}
        for side in sides:
            side(0)
        before = prefetcher.statistics()["waited_seconds"]
        for _, side in there_and_back(sides, options.pairs):
            found[side].append(timed(side, nbytes, options.epochs))
        waited = prefetcher.statistics()["waited_seconds"] - before
    assert len({turn[2] for turns in found.values() for turn in turns}) == 1, "the sides gave other tokens"
    tell(kib, options, nbytes, waited, *(found.get(side, []) for side in (by_penstock, by_loader)))


def tell(kib, options, nbytes, waited, ours, theirs):
    rates, cpu = [turn[0] for turn in ours], [turn[1] for turn in ours]
    seconds = sum(nbytes * options.epochs / 2e6 / rate for rate in rates)
    line = (f"{kib:>5} KiB  penstock {figure(rates, ' Mtokens/s', 0)}, "
            f"{statistics.median(rates) * 2e-3:.1f} GB/s ({statistics.median(cpu):.2f} CPU s/GB), waited "
            f"{100 * waited / seconds:.0f} %")
    if theirs:
        ratios = [a[0] / b[0] for a, b in zip(ours, theirs, strict=True)]
        shares = [a[1] / b[1] for a, b in zip(ours, theirs, strict=True)]
        line += (f"   DataLoader {statistics.median(turn[0] for turn in theirs):.0f} "
                 f"({statistics.median(turn[1] for turn in theirs):.2f})   rate {figure(ratios)}   "
                 f"CPU {figure(shares)}")
    print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--kib", default="4,64,256", help="of a sequence")
    parser.add_argument("--batch-mib", type=int, default=4)
    parser.add_argument("--window", type=int, default=4, help="batches that are read ahead, and the program's own")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--device", help="of torch; else host memory on both sides")
    options = parser.parse_args()
    with tempfile.NamedTemporaryFile(dir=options.folder, suffix=".bin") as file:
        for _ in range(options.mib):
            file.write(np.random.default_rng().integers(0, 1 << 16, 1 << 19, dtype=np.uint16).tobytes())
        file.flush()
        if options.device:
            print(f"link: {link_gb_per_s():.1f} GB/s", flush=True)
        for kib in options.kib.split(","):
            (measure_cold if options.cold else measure)(Path(file.name), int(kib), options)


if __name__ == "__main__":
    main()
