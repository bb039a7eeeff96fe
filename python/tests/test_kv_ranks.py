# SPDX-License-Identifier: Apache-2.0

"""Several processes with one store: what one commits others see at once, and a token block whose shards tensor-parallel
ranks put is there as a whole, or not at all, whenever a rank dies."""

import contextlib
import os
import random
import signal
import subprocess
import sys

import numpy as np
import pytest

from penstock import kv

MIB = 1 << 20
CHUNK = 20_000
RANKS = 2
KILLS = int(os.environ.get("PENSTOCK_KILLS", "20"))

RANK = """
import sys
import numpy as np
from penstock import kv
folder, rank, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with kv.Store(folder, model="m", layout=f"tp2 rank{rank}", capacity_bytes=8 << 20, extent_bytes=1 << 20,
              host_bytes=(seed % 2) << 20, commit_s=0.01) as store:
    for block in range(seed * 1000, seed * 1000 + 1000):
        content = np.random.default_rng(2 * block + rank).integers(0, 256, 20_000, dtype=np.uint8)
        store.put([b"%d" % block], [content])
        print(block, flush=True)
"""


def content(block, rank):
    return np.random.default_rng(2 * block + rank).integers(0, 256, CHUNK, dtype=np.uint8)


@pytest.fixture
def readers(tmp_path):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(kv.Store(tmp_path, model="m", layout=f"tp2 rank{rank}", read_only=True))
               for rank in range(RANKS)]


def put_until_one_is_killed(folder, seed):
    """Both ranks put the shards of the same blocks, and one is killed at some block. Returns the last block begun."""
    chosen = random.Random(seed)
    ranks = [subprocess.Popen([sys.executable, "-c", RANK, str(folder), str(rank), str(seed)], stdout=subprocess.PIPE)
             for rank in range(RANKS)]
    victim, others = ranks.pop(chosen.randrange(RANKS)), ranks
    try:
        for _ in range(chosen.randint(1, 60)):
            last = int(victim.stdout.readline())
        victim.send_signal(signal.SIGKILL)
    finally:
        for each in (victim, *others):
            each.kill()
            each.stdout.close()
            each.wait()
    return last


def test_a_block_is_there_with_all_ranks_shards_or_with_none(tmp_path, readers):
    whole = 0
    for seed in range(1, KILLS + 1):
        last = put_until_one_is_killed(tmp_path, seed)
        blocks = list(range(seed * 1000, last + 2))
        keys = [b"%d" % block for block in blocks]
        for reader in readers:
            reader.refresh()
        there = min(reader.prefix(keys) for reader in readers)
        for reader, rank in zip(readers, range(RANKS), strict=True):
            memories = [np.zeros(CHUNK, np.uint8) for _ in blocks]
            outcomes = reader.get(keys, memories)
            assert outcomes[:there] == [kv.Outcome.DONE] * there
            for block, memory, outcome in zip(blocks, memories, outcomes, strict=True):
                assert outcome != kv.Outcome.DONE or (memory == content(block, rank)).all()
        whole += there
    assert whole > 0, "no block was ever whole: the test tried nothing"


def test_what_another_process_has_committed_is_no_miss(tmp_path):
    settings = {"model": "m", "capacity_bytes": MIB, "extent_bytes": MIB, "commit_s": 3600}
    with kv.Store(tmp_path, **settings) as writer, kv.Store(tmp_path, **settings) as reader:

        def put(*keys):
            writer.put(keys, [np.full(CHUNK, ord(key), np.uint8) for key in keys])
            assert reader.lookup(keys) == [False] * len(keys)
            writer.commit()
            reader._drives[0]._read_at = 0  # A millisecond is over.

        put("2")
        assert reader.lookup(["2", "0"]) == [True, False]
        put("0", "1")
        into = [np.zeros(CHUNK, np.uint8) for _ in range(3)]
        # The last was known before the look at the journal, and the others were not.
        assert reader.get(["0", "1", "2"], into) == [kv.Outcome.DONE] * 3
        assert [memory[0] for memory in into] == [ord(key) for key in "012"]
