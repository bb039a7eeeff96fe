#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Load or compute, by `Store.worth_loading`, against always the one and always the other, over a trace of prompts.

    kv_worth.py FOLDER [--prompts 400] [--at-once 4] [--mib 1] [--rates 50,100,...] [--rounds 3] [--seed 1] [--slow]

The trace is that of kv_trace.py, made from the seed: no program was recorded. So many prompts are under way at once. Of
each, the leading blocks that the store has are got by one call, or take their time to compute, which passes without
work; the others are put. A rate is of computing, in blocks of a second. Each way is a replay on a store of its own, the
ways by turns; its time is the sum of what gets and computing took. The regret of a way is how much longer that is than
the better of "get" and "compute" of the same round. With --slow a program writes to the drive within each second
quarter of the prompts.
"""

import argparse
import itertools
import os
import shutil
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from kv_trace import trace
from penstock import kv
from turns import figure, machine

WAYS = {"compute": lambda store, keys, seconds: False, "get": lambda store, keys, seconds: True,
        "worth_loading": lambda store, keys, seconds: store.worth_loading(keys, seconds)}
BLOCKS_MOST = 32


class Replay:
    """One way, over all prompts."""

    def __init__(self, folder, way, prompts, rate, options):
        self._way, self._prompts, self._rate, self._options = WAYS[way], prompts, rate, options
        self._folder, self._nbytes = folder / "worth", options.mib << 20
        self._next, self._spent, self._lock = itertools.count(), [], threading.Lock()

    def _one(self, blocks, memories):
        keys = [b"%d" % block for block in blocks]
        there = self._store.prefix(keys)
        if there:
            compute_s, began = there / self._rate, time.perf_counter()
            came = 0
            if self._way(self._store, keys[:there], compute_s):
                outcomes = self._store.get(keys[:there], memories[:there])
                came = next((i for i, outcome in enumerate(outcomes) if outcome != kv.Outcome.DONE), there)
            time.sleep((there - came) / self._rate)
            with self._lock:
                self._spent.append(time.perf_counter() - began)
        if keys[there:]:
            self._store.put(keys[there:], memories[there:len(keys)])

    def _work(self):
        memories = list(np.random.default_rng().integers(0, 256, (BLOCKS_MOST, self._nbytes), dtype=np.uint8))
        while (number := next(self._next)) < len(self._prompts):
            self._one(self._prompts[number], memories)

    def _disturb(self, ended):
        quarter = len(self._prompts) // 4
        with open(self._folder.parent / "other", "wb", buffering=0) as file:
            while not ended.is_set():
                if len(self._spent) // max(quarter, 1) % 2 == 1:
                    file.write(bytes(16 << 20))
                    os.fdatasync(file.fileno())
                    file.seek(0)
                else:
                    ended.wait(0.01)

    def run(self):
        capacity = len({block for blocks in self._prompts for block in blocks}) * (self._nbytes + 65536)
        shutil.rmtree(self._folder, ignore_errors=True)
        ended = threading.Event()
        with kv.Store(self._folder, model="worth", capacity_bytes=capacity + (64 << 20)) as self._store:
            with ThreadPoolExecutor(self._options.at_once + 1) as pool:
                other = pool.submit(self._disturb, ended) if self._options.slow else None
                try:
                    for each in [pool.submit(self._work) for _ in range(self._options.at_once)]:
                        each.result()
                finally:
                    ended.set()
                if other:
                    other.result()
            counts = self._store.state()["decisions"]
        shutil.rmtree(self._folder)
        return sum(self._spent), counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prompts", type=int, default=400)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--mib", type=int, default=1)
    parser.add_argument("--rates", default="200,500,1000,2000", help="blocks that are computed in a second")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slow", action="store_true")
    options = parser.parse_args()
    prompts = [each["hash_ids"][:BLOCKS_MOST] for each in trace(options.prompts, 50, options.seed)]
    print(f"{machine('no GPU')}; {options.prompts} prompts by seed {options.seed}, {options.at_once} at once, "
          f"blocks of {options.mib} MiB{', beside writes of another program' if options.slow else ''}", flush=True)
    for rate in map(float, options.rates.split(",")):
        regrets, spent, counts = [], {way: [] for way in WAYS}, {}
        for number in range(options.rounds):
            for way in list(WAYS) if number % 2 == 0 else reversed(WAYS):
                seconds, counted = Replay(options.folder, way, prompts, rate, options).run()
                spent[way].append(seconds)
                counts = counted if way == "worth_loading" else counts
            better = min(spent["get"][-1], spent["compute"][-1])
            regrets.append(100 * (spent["worth_loading"][-1] / better - 1))
        print(f"{rate:>6.0f} blocks/s: " + ", ".join(f"{way} {statistics.median(each):.2f} s"
                                                    for way, each in spent.items())
              + f"; regret {figure(regrets)} %; {counts}", flush=True)


if __name__ == "__main__":
    main()
