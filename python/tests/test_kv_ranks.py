# SPDX-License-Identifier: Apache-2.0

"""Several processes with one store: what one commits others see at once, and a token block whose shards tensor-parallel
ranks put is there as a whole, or not at all, whenever a rank dies."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from penstock import kv

MIB = 1 << 20
CHUNK = 20_000
RANKS = 2
KILLS = int(os.environ.get("PENSTOCK_KILLS", "20"))
DONE = kv.Outcome.DONE

# All blocks of a seed have room: else a rank that was ahead of the one that is killed gave its first blocks' slots to
# others within its last `commit_s`, of which its journal does not tell, and a get of them is a miss.
RANK = """
import sys
import numpy as np
from penstock import kv
folder, rank, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with kv.Store(folder, model="m", layout=f"tp2 rank{rank}", capacity_bytes=32 << 20, extent_bytes=1 << 20,
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
            assert outcomes[:there] == [kv.Outcome.DONE] * there, (seed, rank, there, last, outcomes, reader.state())
            for block, memory, outcome in zip(blocks, memories, outcomes, strict=True):
                assert outcome != kv.Outcome.DONE or (memory == content(block, rank)).all()
        whole += there
    assert whole > 0, "no block was ever whole: the test tried nothing"


# One process that puts whole blocks, and is killed within some.
ALL_RANKS = """
import sys
import numpy as np
from penstock import kv
folder, seed = sys.argv[1], int(sys.argv[2])
with kv.Ranks(folder, layouts=["tp2 rank0", "tp2 rank1"], model="m", capacity_bytes=32 << 20, extent_bytes=1 << 20,
              commit_s=0.01) as ranks:
    for block in range(seed * 1000, seed * 1000 + 1000):
        shards = [[np.random.default_rng(2 * block + rank).integers(0, 256, 20_000, dtype=np.uint8)]
                  for rank in range(2)]
        assert ranks.put([b"%d" % block], shards) == [kv.Outcome.DONE]
        print(block, flush=True)
"""


def test_ranks_have_whole_blocks_or_none_whenever_their_writer_is_killed(tmp_path):
    chosen, whole = random.Random(1), 0
    with kv.Ranks(tmp_path, layouts=["tp2 rank0", "tp2 rank1"], model="m", read_only=True) as ranks:
        for seed in range(1, KILLS + 1):
            writer = subprocess.Popen([sys.executable, "-c", ALL_RANKS, str(tmp_path), str(seed)],
                                      stdout=subprocess.PIPE)
            for _ in range(chosen.randint(1, 60)):
                last = int(writer.stdout.readline())
            writer.kill()
            writer.stdout.close()
            writer.wait()
            blocks = list(range(seed * 1000, last + 3))
            keys = [b"%d" % block for block in blocks]
            ranks.refresh()
            there = ranks.lookup(keys)
            into = [[np.zeros(CHUNK, np.uint8) for _ in blocks] for _ in range(RANKS)]
            outcomes = ranks.get(keys, into)
            assert [each == kv.Outcome.DONE for each in outcomes] == there, (seed, there, outcomes)
            assert ranks.prefix(keys) == (there + [False]).index(False)
            for i, block in enumerate(blocks):
                assert not there[i] or all((into[rank][i] == content(block, rank)).all() for rank in range(RANKS))
            whole += sum(there)
    assert whole > 0, "no block was ever whole: the test tried nothing"


def test_a_block_of_which_one_shard_found_no_room_leaves_none(tmp_path):
    with kv.Ranks(tmp_path, layouts=["a", "b"], model="m", capacity_bytes=MIB, extent_bytes=MIB) as ranks:
        small, large = np.ones(CHUNK, np.uint8), np.ones(MIB, np.uint8)
        assert ranks.put(["0", "1"], [[small, small], [large, small]]) == [kv.Outcome.LARGE, DONE]
        assert ranks.lookup(["0", "1"]) == [False, True]
        assert [store.lookup(["0", "1"]) for store in ranks.stores] == [[False, True], [False, True]]
        assert ranks.put(["1"], [[small], [small]]) == [kv.Outcome.PRESENT]
        assert ranks.stores[1].delete(["1"]) == [True]
        assert ranks.lookup(["1"]) == [False] and ranks.prefix(["1"]) == 0
        assert ranks.get(["1"], [[bytearray(CHUNK)], [bytearray(CHUNK)]]) == [kv.Outcome.MISS]
        assert ranks.put(["1"], [[small], [small]]) == [DONE], "one shard was missing"


def test_ranks_need_a_layout_each(tmp_path):
    for layouts in ([], ["a", "a"]):
        with pytest.raises(ValueError, match="one for each rank"):
            kv.Ranks(tmp_path, layouts=layouts, model="m", read_only=True)


SETTINGS = {"model": "m", "capacity_bytes": MIB, "extent_bytes": MIB, "commit_s": 3600}


def commit(writer, *keys):
    assert writer.put(keys, [np.full(CHUNK, ord(key), np.uint8) for key in keys]) == [DONE] * len(keys)
    writer.commit()


def test_what_another_process_has_committed_is_no_miss(tmp_path):
    with kv.Store(tmp_path, **SETTINGS) as writer, kv.Store(tmp_path, **SETTINGS) as reader:
        commit(writer, "2")
        into = [np.zeros(CHUNK, np.uint8) for _ in range(3)]
        assert reader.put(["2"], into[:1]) == [kv.Outcome.PRESENT]
        reader._drives[0]._read_at.clear()  # A millisecond is over.
        commit(writer, "0", "1")
        # The last was known before the look at the journal, and the others were not.
        assert reader.get(["0", "1", "2"], into) == [DONE] * 3
        assert [memory[0] for memory in into] == [ord(key) for key in "012"]


def test_a_sub_store_whose_writer_was_killed_at_the_start_keeps_nobody_from_others(tmp_path):
    with kv.Store(tmp_path, **SETTINGS) as writer, kv.Store(tmp_path, **SETTINGS) as reader:
        (reader._drives[0].folder / "7").mkdir()
        commit(writer, "1")
        reader.refresh()
        assert reader.lookup(["1"]) == [True]
        with kv.Store(tmp_path, **SETTINGS, read_only=True) as another:
            assert another.lookup(["1"]) == [True]


def test_what_must_not_wait_for_a_drive_reads_no_journal(tmp_path):
    with kv.Store(tmp_path, **SETTINGS) as writer, kv.Store(tmp_path, **SETTINGS) as reader:
        commit(writer, "1")
        assert reader.lookup(["1"]) == [False] and reader.prefix(["1"]) == 0
        assert reader.seconds_to_get(["1"]) == 0, "a missing chunk takes no time"
        assert reader.get(["1"], [bytearray(CHUNK)], timeout=60) == [kv.Outcome.MISS]
        assert reader.get(["1"], [bytearray(CHUNK)]) == [DONE]
        assert reader.lookup(["1"]) == [True]


def test_a_sub_store_counts_as_read_when_its_own_journal_was(tmp_path, monkeypatch):
    clock = SimpleNamespace(monotonic=lambda: 1000.0, perf_counter=time.perf_counter)
    monkeypatch.setattr("penstock.kv.drive.time", clock)
    with contextlib.ExitStack() as stack:
        *writers, reader = [stack.enter_context(kv.Store(tmp_path, **SETTINGS)) for _ in range(4)]
        in_order = [writers[int(number)] for number in reader._drives[0].others]
        for key, writer in zip("012", in_order, strict=True):
            commit(writer, key)
        assert reader.get(["0"], [bytearray(CHUNK)]) == [DONE], "the first has it: the last is not looked at"
        assert reader.get(["2"], [bytearray(CHUNK)]) == [DONE]


class AskedMeanwhile:
    """A sub-store during whose refresh another thread gets a chunk."""

    def __init__(self, native, ask):
        self._native, self._ask = native, ask

    def __getattr__(self, name):
        return getattr(self._native, name)

    def refresh(self):
        ask, self._ask = self._ask, lambda: None
        ask()
        self._native.refresh()


def test_a_sub_store_counts_as_read_only_when_its_journal_has_been(tmp_path):
    with kv.Store(tmp_path, **SETTINGS) as writer, kv.Store(tmp_path, **SETTINGS) as reader:
        outcomes = []
        others = reader._drives[0].others
        others["0"] = AskedMeanwhile(others["0"], lambda: outcomes.extend(reader.get(["1"], [bytearray(CHUNK)])))
        commit(writer, "1")
        assert reader.get(["1"], [bytearray(CHUNK)]) == [DONE]
        assert outcomes == [DONE]
