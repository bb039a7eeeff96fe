#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""What gets of a KV cache feel of a checkpoint that one session writes on the same drive.

    drive_shares.py FOLDER [--pairs 5] [--seconds 5] [--gib 2] [--rate 0.8]

Gets of 2 MiB, at random places, are asked for at a tenth of the rate that the drive has for them; the checkpoint is
written in requests of 32 MiB, up to four at once, over and over, at 0.8 of the rate that it has alone. Both are direct
I/O into and from host memory. Each turn has two sides: the gets alone, and the gets beside the checkpoint. A get takes
the time from when it was due. The goal: p99 at most twice the one alone.
"""

import argparse
import mmap
import random
import threading
import time
from pathlib import Path

import numpy as np

import penstock
from turns import figure, machine, there_and_back

GET, SAVE, SAVES, THREADS = 2 << 20, 32 << 20, 4, 8
ALONE, BESIDE = "alone", "beside"


def aligned(size):
    """Memory at a page's boundary: from other memory the library goes through the page cache."""
    return np.frombuffer(mmap.mmap(-1, size), dtype=np.uint8)


def moved(report):
    assert report.direct_bytes == report.bytes, f"not direct: {report}"
    return report.bytes


def make(path, size):
    with penstock.Session(device="host") as session, session.create(path, replace=True, direct=True) as file:
        block = aligned(SAVE)
        block[:] = np.random.default_rng(1).integers(0, 256, SAVE, dtype=np.uint8)
        for offset in range(0, size, SAVE):
            moved(file.write(block, offset))


class Gets:
    """Gets of which one is due every `pause_s` until `end`, whether those before have ended or not."""

    def __init__(self, file, size, pause_s, end):
        self._file, self._places, self._pause_s, self._end = file, size // GET, pause_s, end
        self._lock, self._next = threading.Lock(), time.monotonic()
        self.took = []
        self._threads = [threading.Thread(target=self._take, args=(seed,)) for seed in range(THREADS)]
        for thread in self._threads:
            thread.start()

    def _take(self, seed):
        source, memory = random.Random(seed), aligned(GET)
        while True:
            with self._lock:
                due = self._next
                self._next += self._pause_s
            if max(due, time.monotonic()) >= self._end:
                return
            time.sleep(max(due - time.monotonic(), 0))
            moved(self._file.read(memory, source.randrange(self._places) * GET))
            self.took.append(1e3 * (time.monotonic() - due))

    def join(self):
        for thread in self._threads:
            thread.join()
        return sorted(self.took)


def save_until(file, size, end, rate):
    """Saves at no more than `rate` bytes a second, and returns what it reached."""
    block = aligned(SAVE)
    start, begun, done, under_way = time.monotonic(), 0, 0, []
    while time.monotonic() < end:
        if len(under_way) == SAVES:
            done += moved(under_way.pop(0).result())
        time.sleep(max(start + begun / rate - time.monotonic(), 0))
        under_way.append(file.write_async(block, begun % size))
        begun += SAVE
    done += sum(moved(each.result()) for each in under_way)
    return done / (time.monotonic() - start)


def run(words, pause_s, save_rate):
    """(milliseconds of each get in order, bytes of the checkpoint a second); a rate of 0 saves nothing."""
    size = words.gib << 30
    with penstock.Session(device="host") as session, \
            session.open(words.folder / "kv", direct=True) as kv, \
            session.open(words.folder / "save", "r+", direct=True) as save:
        end = time.monotonic() + words.seconds
        gets = Gets(kv, size, pause_s, end)
        reached = save_until(save, size, end, save_rate) if save_rate > 0 else 0.0
        return gets.join(), reached


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5, help="of each side of a turn")
    parser.add_argument("--gib", type=int, default=2, help="of each of the two files")
    parser.add_argument("--rate", type=float, default=0.8, help="of the checkpoint, of its own alone")
    words = parser.parse_args()
    for name in ("kv", "save"):
        make(words.folder / name, words.gib << 30)
    gets_a_second = len(run(words, 0, 0)[0]) / words.seconds
    _, most = run(words, words.seconds, float("inf"))  # One get, at the beginning.
    print(f"{machine('no GPU')}; gets {gets_a_second * GET / 1e9:.2f} GB/s, checkpoint {most / 1e9:.2f} GB/s, each at "
          f"its most and alone; asked for: {gets_a_second / 10:.0f} gets a second, {words.rate:.2f} of the checkpoint",
          flush=True)
    p99 = {ALONE: [], BESIDE: []}
    reached = []
    for number, side in there_and_back(p99, words.pairs):
        took, rate = run(words, 10 / gets_a_second, words.rate * most if side == BESIDE else 0)
        p99[side].append(took[int(0.99 * len(took))])
        if side == BESIDE:
            reached.append(rate / most)
        print(f"{number} {side:6}  p50 {took[len(took) // 2]:7.2f}  p99 {p99[side][-1]:7.2f} ms  {len(took)} gets  "
              f"{rate / 1e9:.2f} GB/s", flush=True)
    ratios = [beside / alone for beside, alone in zip(p99[BESIDE], p99[ALONE], strict=True)]
    print(f"p99 alone {figure(p99[ALONE])}, beside {figure(p99[BESIDE])} ms: {figure(ratios)} times; "
          f"checkpoint {figure(reached)} of its rate alone")


if __name__ == "__main__":
    main()
