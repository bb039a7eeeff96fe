# SPDX-License-Identifier: Apache-2.0

"""The store gives no wrong chunk after the hostile schedule of bench/python, which sees the wrong ones of a store that
is as simple as can be."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench/python"
sys.path.insert(0, str(BENCH))

import no_foreign_token

# One file for each hash, and no look at how much was written, read or meant. It stands in the store's place.
NAIVE = """
import os, sys
import numpy as np
import kv_sides, no_foreign_token

class Naive(kv_sides.Side):
    THEIRS = None
    can_remove = True
    def __init__(self, folder, chunk, count, is_ours, world, capacity):
        self.folder, self.chunk, self.row = folder, chunk, np.zeros(chunk, dtype=np.uint8)
    def keys(self, numbers):
        return [self.folder / str(number) for number in numbers]
    def put(self, keys, rows):
        for key, row in zip(keys, rows):
            if not key.exists():
                fd = os.open(key, os.O_WRONLY | os.O_CREAT)
                os.write(fd, row)
                os.close(fd)
        return [True] * len(keys)
    def _read(self, key):
        fd = os.open(key, os.O_RDONLY)
        os.readv(fd, [self.row])
        os.close(fd)
        return self.row.copy()
    def get(self, keys):
        return [self._read(key) if key.exists() else None for key in keys]
    def both(self, keys, rows, wanted):
        return self.put(keys, rows), self.get(wanted)
    def remove(self, key):
        return True
    def close(self):
        pass

kv_sides.KINDS["penstock"] = Naive
sys.exit(no_foreign_token.main())
"""


def result_of(tmp_path, command, operations):
    report = tmp_path / "report.json"
    done = subprocess.run([sys.executable, "-B", *command, tmp_path, "--hosts", "penstock", "--operations",
                           str(operations), "--json", report, "--log", tmp_path / "log"],
                          env={**os.environ, "PYTHONPATH": f"{BENCH}:{os.environ['PYTHONPATH']}"},
                          capture_output=True, text=True)
    result, = json.loads(report.read_text())
    return done.returncode, result, f"{done.stdout}{done.stderr}{(tmp_path / 'log.penstock').read_text()[-4000:]}"


def test_no_chunk_of_a_hundred_thousand_operations_is_wrong(tmp_path):
    code, result, said = result_of(tmp_path, [BENCH / "no_foreign_token.py"], 100_000)
    assert code == 0 and [result[kind] for kind in no_foreign_token.WRONG] == [0, 0, 0], said
    assert result["operations"] >= 100_000 and result["hits"] > 20_000, said
    for hostile in ("kills", "injected", "removed", "forgotten", "evicted", "clock steps"):
        assert result[hostile] > 0, (hostile, said)


def test_the_schedule_finds_what_a_simple_store_gives_wrongly(tmp_path):
    code, result, said = result_of(tmp_path, ["-c", NAIVE], 5_000)
    assert code == 1 and result["foreign"] > 0 and result["stale"] > 0 and result["torn"] > 0, said


WORLD, KEY, NEWEST = 2, 77, 5


def made(world=WORLD, number=KEY, generation=NEWEST):
    return no_foreign_token.rows_of(world, [number], [generation])[0]


@pytest.mark.parametrize("kind, row", [
    ("right", made()), ("right", made(generation=4)), ("stale", made(generation=3)), ("torn", made(generation=6)),
    ("foreign", made(number=78)), ("foreign", made(world=3)), ("foreign", made(world=3).reshape(2, -1)[::-1].ravel()),
    ("torn", np.concatenate([made()[:2048], made(number=78)[2048:]])), ("torn", made().reshape(2, -1)[::-1].ravel()),
    ("torn", np.zeros_like(made())), ("torn", np.concatenate([made()[:4088], np.zeros(8, dtype=np.uint8)]))])
def test_a_chunk_says_of_whom_it_is(kind, row):
    assert no_foreign_token.judge(row, WORLD, KEY, 4, NEWEST)[0] == kind
