#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""How long single calls of penstock.kv.Store take, in microseconds: median and 99th percentile.

    kv_calls.py FOLDER [--kib 16,128,2048] [--calls 2000] [--runs 3] [--pause-ms 1]

Puts of new chunks, so far apart, gets of those, lookups of one key and of 32; by the drive alone and with 128 MiB of
host memory before it, by turns; the median of the runs.
"""

import argparse
import random
import shutil
import statistics
import time
from pathlib import Path

import numpy as np

from penstock import kv

HOST_BYTES = 128 << 20


def timed(calls, pause_s=0.0):
    taken = []
    for call in calls:
        began = time.perf_counter()
        call()
        taken.append(1e6 * (time.perf_counter() - began))
        if pause_s:
            time.sleep(pause_s)
    taken.sort()
    return statistics.median(taken), taken[int(0.99 * (len(taken) - 1))]


def run(folder, host_bytes, nbytes, count, pause_s):
    shutil.rmtree(folder, ignore_errors=True)
    capacity = 2 * count * (nbytes + 8192) + 4 * HOST_BYTES
    store = kv.Store(folder, model="bench", capacity_bytes=capacity, host_bytes=host_bytes)
    memories = [np.random.default_rng(i).integers(0, 256, nbytes, dtype=np.uint8) for i in range(16)]
    keys = [b"%d" % i for i in range(count)]
    into = np.empty(nbytes, np.uint8)
    figures = {}

    def put(i):
        assert store.put([keys[i]], [memories[i % 16]]) == [kv.Outcome.DONE]

    def get(i):
        assert store.get([keys[i]], [into]) == [kv.Outcome.DONE]

    for i in range(2 * HOST_BYTES // nbytes):  # So that memory is the store's, and puts make room as in the long run.
        while store.put([b"before %d" % i], [memories[i % 16]]) == [kv.Outcome.FULL]:
            store.commit()
    store.commit()
    pause_s = max(pause_s, nbytes / 0.3e9)  # Or all of the memory would wait for a drive.
    figures["put"] = timed((lambda i=i: put(i) for i in range(count)), pause_s)
    store.commit()
    order = random.Random(1).sample(range(max(0, count - 256), count), min(count, 256))
    figures["get"] = timed([lambda i=i: get(i) for i in order * 4])
    figures["lookup"] = timed([lambda i=i: store.lookup([keys[i]]) for i in order * 20])
    many = keys[:32]
    figures["lookup of 32"] = tuple(each / 32 for each in timed([lambda: store.lookup(many)] * 2000))
    store.close()
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kib", default="16,128,2048")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pause-ms", type=float, default=1)
    words = parser.parse_args()
    for kib in map(int, words.kib.split(",")):
        count = min(words.calls, (1 << 30) // (kib << 10))
        turns = {name: [] for name in ("drive", "host memory first")}
        for _ in range(words.runs):
            for name, host_bytes in (("drive", 0), ("host memory first", HOST_BYTES)):
                turns[name].append(run(words.folder / "kv", host_bytes, kib << 10, count, words.pause_ms / 1e3))
        for name, runs in turns.items():
            each = ", ".join(f"{call} {statistics.median(one[call][0] for one in runs):.1f} / "
                             f"{statistics.median(one[call][1] for one in runs):.1f}" for call in runs[0])
            print(f"{kib:>6} KiB  {name:18} {each}", flush=True)
    shutil.rmtree(words.folder / "kv", ignore_errors=True)
