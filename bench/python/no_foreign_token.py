#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Counts wrong chunks that KV caches give after a hostile schedule: by the hosts' own classes, and by Penstock's.

    PYTHONPATH=PENSTOCK:CLIENTS:TESTS [LD_PRELOAD=LAYER] no_foreign_token.py FOLDER
        [--hosts penstock,vllm,sglang,lmcache] [--sides both] [--operations 100000] [--minutes 30] [--seed 1]
        [--json FILE] [--log NAME]

Each chunk carries in its bytes of whom it is: model and layout, key, generation. So a wrong one is known as
foreign (of another key, model, dtype, layout, number of ranks or tenant), stale (removed before the get began) or torn
(parts of several, or of none). Two processes on one folder store and get the paths of one tree of prefixes, remove,
evict, step the clock, are killed and come back, and get the same hashes under another model, dtype, layout, number of
ranks and salt. With LAYER (libpenstock_hostile_calls.so of the tests) some reads and writes of half of the lives fail
with EIO or ENOSPC, or are short. An operation is a chunk that is stored, got or removed; the schedule of a process
comes from the seed, and how the two meet from the machine. A hit that is wrong is one that an engine would compute
with. The exit code tells of Penstock alone: 1 for a wrong chunk, a hang, or no hits.
"""

import argparse
import ctypes
import importlib
import json
import logging
import mmap
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from importlib.metadata import version
from pathlib import Path

import numpy as np

from kv_sides import KINDS, VLLM, World
from turns import machine

WORLDS = {"": World(), "model": World(model="org/other"), "spelled": World(model="org-model"),
          "dtype": World(dtype="float16"), "layout": World(is_other_layout=True), "ranks": World(ranks=2),
          "salt": World(salt="tenant")}
NAMES = list(WORLDS)
DEPTH = 15
KEYS = (1 << DEPTH) - 1
CHUNK = 4096
LANES = np.arange(CHUNK // 8, dtype=np.uint64) << np.uint64(48)
ID = (1 << 48) - 1
CAPACITY = {"penstock": 8 << 20, "ours": 64 << 20, "theirs": 16 << 20}
COUNTS = ("operations", "stored", "not stored", "hits", "misses", "removed", "foreign", "stale", "torn", "errors",
          "injected", "clock steps", "evicted")
WRONG = ("foreign", "stale", "torn")
MODULES = {"penstock": [],
           "vllm": ["vllm.v1.kv_offload.tiering.factory", "vllm.v1.kv_offload.tiering.fs.manager"],
           "sglang": ["without_torchvision", "sglang.srt.managers.cache_controller",
                      "sglang.srt.mem_cache.pool_host.mha", "sglang.srt.mem_cache.storage"],
           "lmcache": ["lmcache.v1.storage_backend"]}
HANGS_S = 60


def shared(shape, dtype):
    return np.frombuffer(mmap.mmap(-1, int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype=dtype).reshape(shape)


def rows_of(world, numbers, generations):
    """The bytes of chunks: in each lane of 8 bytes the lane's number, and of whom it is."""
    ids = np.uint64(world << 42) | (np.array(numbers, dtype=np.uint64) << np.uint64(24)) | np.array(
        generations, dtype=np.uint64)
    return (LANES | ids[:, None]).view(np.uint8)


def judge(row, world, number, oldest, newest):
    """What a chunk is that was asked for, and of whom: "right", or one of WRONG."""
    lanes = row.view(np.uint64)
    found = int(lanes[0]) & ID
    of = found >> 42, found >> 24 & 0x3FFFF, found & 0xFFFFFF
    in_order = np.array_equal(lanes, LANES | np.uint64(found))
    if of[2] == 0 or not (in_order or ((lanes & np.uint64(ID)) == found).all()):
        return "torn", of
    if of[:2] != (world, number):
        return "foreign", of
    if of[2] > newest or not in_order:
        return "torn", of
    return "stale" if of[2] < oldest else "right", of


class Truth:
    """What the processes share: the newest generation of each key, the oldest that may be given, and the counts."""

    def __init__(self):
        self.newest = shared((len(WORLDS), KEYS), np.uint32)
        self.oldest = shared((len(WORLDS), KEYS), np.uint32)
        self.newest[:], self.oldest[:] = 1, 1
        self.counts = shared((2, len(COUNTS)), np.int64)

    def forget(self, world):
        self.newest[world] += 1
        self.oldest[world] = self.newest[world]

    def total(self, name):
        return int(self.counts[:, COUNTS.index(name)].sum())


class Life:
    """One process, until it ends or is killed."""

    def __init__(self, make, truth, me, number, options, folder, log):
        self._truth, self._me, self._log, self._folder = truth, me, log, folder
        self._rng = random.Random(f"{options.seed} {me} {number}")
        self._layer, self._seen = layer(), 0
        self._is_hostile = number % 2 == me
        if number % 6 == me:
            self._hostile(30)  # Also while it opens.
        other = NAMES[1 + (number + me * self._rng.randrange(6)) % (len(NAMES) - 1)]
        worlds = {NAMES.index(name): WORLDS[name] for name in ("", other)}
        # What was removed here and is not yet known to others; and the oldest generations that may come here, which are
        # those of before the store is opened.
        self._removed = {world: set() for world in worlds}
        self._oldest = {world: truth.oldest[world].copy() for world in worlds}
        self._sides = {world: make(about) for world, about in worlds.items()}
        for side in self._sides.values():  # Their owner cannot remove what this process has of them.
            side.disown(side.keys(number for number in range(KEYS) if not self._owns(number)))

    def add(self, name, count=1):
        self._truth.counts[self._me, COUNTS.index(name)] += count

    def _hostile(self, one_in):
        if self._layer is not None:
            self._layer.penstock_test_hostile(str(self._folder).encode(), ctypes.c_uint64(one_in),
                                              ctypes.c_uint64(self._rng.getrandbits(60)))

    def run(self, operations):
        end = self._truth.counts[self._me, 0] + operations
        if self._is_hostile:
            self._hostile(60)
        while self._truth.counts[self._me, 0] < end:
            world = self._rng.choice(list(self._sides))
            try:
                self._step(world, self._sides[world])
            except Exception:
                for name in ("errors", "operations"):
                    self.add(name)
                self._log.write(traceback.format_exc())
            if self._layer is not None:
                injected = self._layer.penstock_test_injected()
                self.add("injected", injected - self._seen)
                self._seen = injected
        self._hostile(0)
        for side in self._sides.values():
            self.add("evicted", side.evicted() or 0)
            side.close()

    def _path(self):
        """The nodes from the tree's root to a leaf: prompts with a common beginning."""
        node, path = 0, []
        for _ in range(DEPTH):
            path.append(node)
            node = 2 * node + 1 + (self._rng.random() < 0.4)
        return path

    def _owns(self, number):
        """An eighth of the keys is stored and removed by one process, and so is of a known generation."""
        return number % 8 != 7 or number >> 3 & 1 == self._me

    def _step(self, world, side):
        chance = self._rng.random()
        path = [number for number in self._path() if self._owns(number)] if chance >= 0.45 else []
        wanted = self._path() if not 0.45 <= chance < 0.55 else []
        keys = side.keys(path)
        rows = rows_of(world, path, self._truth.newest[world, path]) if path else np.empty((0, CHUNK), np.uint8)
        stored, found = side.both(keys, rows, side.keys(wanted)) if path and wanted else (
            (side.put(keys, rows), []) if path else ([], side.get(side.keys(wanted))))
        self.add("stored", sum(stored))
        self.add("not stored", len(path) - sum(stored))
        for number, row in zip(wanted, found, strict=True):
            self._look_at(world, number, row)
        if side.can_remove and chance > 0.9:
            self._remove(world, side, path)
        if self._rng.random() < 0.02:
            self._settle(world, side)
        if self._layer is not None and self._rng.random() < 0.005:
            self._layer.penstock_test_step_clock(ctypes.c_int64(self._rng.randrange(-10**6, 10**6)))
            self.add("clock steps")
        self.add("operations", len(path) + len(wanted))

    def _look_at(self, world, number, row):
        if row is None:
            self.add("misses")
            return
        self.add("hits")
        kind, of = judge(row, world, number, self._oldest[world][number], self._truth.newest[world, number])
        if kind != "right":
            self.add(kind)
            asked, got = NAMES[world], NAMES[of[0]] if of[0] < len(NAMES) else str(of[0])
            by = "" if kind != "foreign" else "key" if of[1] != number else " and ".join(filter(None, (asked, got)))
            self._log.write(json.dumps({"wrong": kind, "by": by, "asked": [
                asked, number, int(self._oldest[world][number])], "got": [got, *of[1:]]}) + "\n")

    def _remove(self, world, side, path):
        known = [number for number in path if number % 8 == 7]
        if not known:
            return
        number = self._rng.choice(known)
        keys = side.keys([number])
        if side.remove(keys[0]):
            self._truth.newest[world, number] += 1
            self._oldest[world][number] = self._truth.newest[world, number]
            self._removed[world].add(number)
            for name in ("removed", "operations"):
                self.add(name)
            self._look_at(world, number, side.get(keys)[0])

    def _settle(self, world, side):
        removed, known = list(self._removed[world]), self._truth.oldest[world].copy()
        side.settle()
        self._truth.oldest[world, removed] = self._oldest[world][removed]
        self._removed[world].difference_update(removed)
        self._oldest[world] = np.maximum(self._oldest[world], known)
        if self._folder.name == VLLM.THEIRS and self._me == 0:
            self._evict()

    def _evict(self):
        """vLLM's files are evicted by whoever runs it."""
        for folder, _, files in os.walk(self._folder):
            for file in files:
                if file.endswith(".bin") and self._rng.random() < 0.1:
                    Path(folder, file).unlink(missing_ok=True)
                    self.add("evicted")


def layer():
    """The functions of the preloaded layer, if there is one."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "penstock_test_hostile"):
        return None
    library.penstock_test_injected.restype = ctypes.c_uint64
    return library


class Run:
    """All lives of one backend."""

    def __init__(self, host, is_ours, options):
        self._host, self._is_ours, self._options = host, is_ours, options
        kind = KINDS[host]
        self.name = host if host == "penstock" else f"{host} {'Penstock' if is_ours else kind.THEIRS}"
        self._folder = options.folder / f"no-foreign-token-{os.getpid()}" / ("penstock" if is_ours else kind.THEIRS)
        self._truth = Truth()
        self._capacity = CAPACITY["penstock" if host == "penstock" else "ours" if is_ours else "theirs"]
        self._log = self._folder.parent / "log"
        self._rng = random.Random(f"{options.seed} {self.name}")
        self.more = {"kills": 0, "lives": 0, "failed lives": 0, "hangs": 0, "forgotten": 0}

    def _make(self, world):
        return KINDS[self._host](self._folder, CHUNK, 64 if self._host != "lmcache" else 4096, self._is_ours, world,
                                 self._capacity)

    def _fork(self, work):
        """Runs it in a process of its own, whose output goes to the log."""
        pid = os.fork()
        if pid != 0:
            return pid
        code = 1
        try:
            log = open(self._log, "a", buffering=1)
            for stream in (1, 2):
                os.dup2(log.fileno(), stream)
            logging.disable(logging.CRITICAL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if "torch" in sys.modules:
                sys.modules["torch"].set_num_threads(1)
            work(log)
            code = 0
        except BaseException:
            log.write(traceback.format_exc())
        finally:
            os._exit(code)

    def _live(self, me, number, operations):
        # Only what does not go by io_uring can be made to fail.
        os.environ["PENSTOCK_IO_URING"] = "off" if number % 2 == me else "auto"
        KINDS["penstock"].host_bytes = (0, 2 << 20)[number // 2 % 2]
        return self._fork(lambda log: Life(self._make, self._truth, me, number, self._options, self._folder,
                                           log).run(operations))

    def _round(self, number, operations):
        start = self._truth.total("operations")
        alive = {self._live(me, number, operations): me for me in (0, 1)}
        kill_at = self._rng.uniform(0.1, 1.9) * operations if number % 2 == 1 else None
        seen, since = start, time.monotonic()
        self.more["lives"] += 2
        while alive:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid:
                alive.pop(pid)
                if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
                    self.more["failed lives"] += 1
                continue
            now = self._truth.total("operations")
            if now != seen:
                seen, since = now, time.monotonic()
            if time.monotonic() - since > HANGS_S:
                self.more["hangs"] += 1
                for pid in alive:
                    os.kill(pid, signal.SIGKILL)
                since += HANGS_S
            if kill_at is not None and now - start >= kill_at:
                kill_at = None
                self.more["kills"] += 1
                os.kill(self._rng.choice(list(alive)), signal.SIGKILL)
            time.sleep(0.002)

    def _forget(self):
        """A model's weights change: its cache is cleared, and what comes later is of a new generation."""
        world = self._rng.randrange(len(NAMES))

        def work(log):
            side = self._make(WORLDS[NAMES[world]])
            side.forget()
            side.close()

        _, status = os.waitpid(self._fork(work), 0)
        if status == 0:
            self._truth.forget(world)
            self.more["forgotten"] += 1

    def run(self):
        for module in MODULES[self._host] + (["penstock.kv"] if self._is_ours else []):
            importlib.import_module(module)
        self._folder.mkdir(parents=True)
        end, number = time.monotonic() + 60 * self._options.minutes, 0
        total = self._options.operations
        while (done := self._truth.total("operations")) < total and time.monotonic() < end and (
                done > 0 or number < 10):
            self._round(number, max(min(20000, total // 20, (total - done + 1) // 2), 50))
            if KINDS[self._host].can_forget and number % 5 == 4:
                self._forget()
            number += 1
        result = self._result()
        if self._options.log:
            shutil.copy(self._log, f"{self._options.log}.{self.name.replace(' ', '-')}")
        shutil.rmtree(self._folder.parent)
        return result

    def _result(self):
        by, first = {}, {}
        with open(self._log, errors="replace") as lines:
            for line in lines:
                if line.startswith('{"wrong"'):
                    wrong = json.loads(line)
                    said = f"{wrong['wrong']} {wrong['by']}".strip()
                    by[said] = by.get(said, 0) + 1
                    first.setdefault(said, wrong)
        kind, own = KINDS[self._host], sys.modules["penstock"].__version__ if self._is_ours else ""
        return {"backend": self.name, "version": own or version(self._host),
                **{name: self._truth.total(name) for name in COUNTS}, **self.more, "wrong": by, "first": first,
                "has stale": kind.can_remove or kind.can_forget}


def is_good(result):
    return sum(result[name] for name in WRONG) == 0 and result["hits"] > 0 and result["hangs"] == 0


def line_of(result):
    stale = f"{result['stale'] if result['has stale'] else '-':>8}"
    return (f"{result['backend']:<24}{result['version']:>10}{result['operations']:12}{result['hits']:12}"
            f"{result['foreign']:9}{stale}{result['torn']:8}   {result['kills']} kills, {result['injected']} injected, "
            f"{result['hangs']} hangs, {result['errors']} errors"
            + (f"; {', '.join(f'{name}: {count}' for name, count in sorted(result['wrong'].items()))}"
               if result["wrong"] else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hosts", default="penstock,vllm,sglang,lmcache")
    parser.add_argument("--sides", choices=["both", "ours", "theirs"], default="both")
    parser.add_argument("--operations", type=int, default=100_000, help="of each backend")
    parser.add_argument("--minutes", type=float, default=30, help="the most for each backend")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--log", help="where to keep what the processes said, for each backend")
    options = parser.parse_args()
    print(f"{machine('no GPU')}; chunks of {CHUNK} bytes, {KEYS} keys in {len(WORLDS)} worlds; "
          f"{'with' if layer() else 'WITHOUT'} the layer that makes reads and writes fail")
    print(f"{'backend':<24}{'version':>10}{'operations':>12}{'hits':>12}{'foreign':>9}{'stale':>8}{'torn':>8}")
    results, is_bad = [], False
    for host in options.hosts.split(","):
        for is_ours in (True, False):
            if (KINDS[host].THEIRS is None and not is_ours) or options.sides == ("theirs" if is_ours else "ours"):
                continue
            results.append(Run(host, is_ours, options).run())
            print(line_of(results[-1]), flush=True)
            is_bad |= is_ours and not is_good(results[-1])
            if options.json is not None:
                options.json.write_text(json.dumps(results, indent=1))
    return is_bad


if __name__ == "__main__":
    sys.exit(main())
