#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""penstock.data's prefetcher against torch's DataLoader over np.memmap, by turns: tokens a second, CPU seconds a GB.

    data.py FOLDER [--mib 512] [--pairs 3] [--kib 4,64,256] [--workers 4] [--device cuda]

A file of uint16 tokens in the page cache, shuffled sequences of so many KiB, batches of 4 MiB; each turn is an epoch.
CPU is that of the process and of its workers.
"""

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from penstock import data

BATCH_BYTES = 4 << 20


class Mapped(torch.utils.data.Dataset):
    def __init__(self, path, length):
        self._tokens = np.memmap(path, np.uint16, "r").reshape(-1, length)

    def __len__(self):
        return len(self._tokens)

    def __getitem__(self, i):
        return torch.from_numpy(self._tokens[i].astype(np.int16))


def cpu_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def timed(epoch, nbytes):
    """(million tokens a second, CPU seconds a GB)."""
    cpu, began = cpu_seconds(), time.perf_counter()
    total = epoch()
    seconds = time.perf_counter() - began
    return nbytes / 2e6 / seconds, (cpu_seconds() - cpu) / nbytes * 1e9, total


def measure(path, kib, options):
    length, batch, nbytes = kib * 512, max(BATCH_BYTES // (kib << 10), 1), path.stat().st_size
    device = options.device

    def of(batches):
        return sum(int(tokens[:, 0].to(torch.int64).bitwise_and(0xFFFF).sum()) for tokens in batches)

    def penstock():
        with data.Prefetcher(data.RecordIndex.tokens([path], length), batch, device=device or "cpu") as batches:
            return of(tokens.view(torch.int16) for tokens in batches)

    def loader():
        batches = torch.utils.data.DataLoader(Mapped(path, length), batch, shuffle=True, num_workers=options.workers,
                                              pin_memory=device is not None)
        return of(tokens.to(device) if device else tokens for tokens in batches)

    found = {penstock: [], loader: []}
    for pair in range(options.pairs):
        for side in sorted(found, key=lambda each: each.__name__, reverse=pair % 2 == 0):
            found[side].append(timed(side, nbytes))
    assert len({turn[2] for turns in found.values() for turn in turns}) == 1, "the sides gave other tokens"
    ratios = [a[0] / b[0] for a, b in zip(found[penstock], found[loader], strict=True)]
    cpu = [a[1] / b[1] for a, b in zip(found[penstock], found[loader], strict=True)]
    (ours, ours_cpu), (theirs, theirs_cpu) = (
        [statistics.median(turn[i] for turn in found[side]) for i in range(2)] for side in (penstock, loader))
    print(f"{kib:>5} KiB  penstock {ours:.0f} Mtokens/s ({ours_cpu:.2f} CPU s/GB)   DataLoader {theirs:.0f} "
          f"({theirs_cpu:.2f})   rate {statistics.median(ratios):.2f} [{min(ratios):.2f} {max(ratios):.2f}]   "
          f"CPU {statistics.median(cpu):.2f} [{min(cpu):.2f} {max(cpu):.2f}]", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--kib", default="4,64,256", help="of a sequence")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--device", help="of torch; else host memory on both sides")
    options = parser.parse_args()
    with tempfile.NamedTemporaryFile(dir=options.folder, suffix=".bin") as file:
        for _ in range(options.mib):
            file.write(np.random.default_rng().integers(0, 1 << 16, 1 << 19, dtype=np.uint16).tobytes())
        file.flush()
        for kib in options.kib.split(","):
            measure(Path(file.name), int(kib), options)


if __name__ == "__main__":
    main()
