# SPDX-License-Identifier: Apache-2.0

"""Records that are read ahead: which, in which order, and what a failure leaves."""

import json
import os
import random
import struct

import numpy as np
import pytest

import penstock
from penstock import data

SEQUENCE = 16


@pytest.fixture
def tokens(tmp_path):
    """Two files of tokens that tell their number, 100 sequences and a rest."""
    numbers = np.arange(100 * SEQUENCE + 5, dtype=np.uint16)
    numbers[:40 * SEQUENCE].tofile(tmp_path / "a.bin")
    np.save(tmp_path / "b.npy", numbers[40 * SEQUENCE:])
    return data.RecordIndex.tokens([tmp_path / "a.bin", tmp_path / "b.npy"], SEQUENCE)


@pytest.fixture
def make(session):
    made = []

    def prefetcher(index, batch_size=8, **options):
        made.append(data.Prefetcher(index, batch_size, session=session, **options))
        return made[-1]

    yield prefetcher
    for each in made:
        each.close()


def sequences(prefetcher):
    """The number of each record, in the order in which they come; every token is checked."""
    found = []
    for batch in prefetcher:
        assert (np.asarray(batch) == np.asarray(batch)[:, :1] + np.arange(SEQUENCE)).all()
        found += [int(each) // SEQUENCE for each in np.asarray(batch)[:, 0]]
    return found


def test_tokens_are_cut_into_sequences(tokens, make):
    assert len(tokens) == 100
    assert sequences(make(tokens, shuffle=False)) == list(range(100))


@pytest.mark.parametrize("seed", range(5))
def test_an_epoch_is_every_record_once_in_an_order_by_seed_and_epoch(tokens, make, seed):
    first = sequences(make(tokens, seed=seed))
    assert sorted(first) == list(range(100))
    assert sequences(make(tokens, seed=seed, window_batches=2, coalesce_gap=0)) == first
    assert sequences(make(tokens, seed=seed, epoch=1)) != first
    assert sequences(make(tokens, seed=seed + 1)) != first


@pytest.mark.parametrize("world_size", [2, 3, 7])
def test_ranks_share_an_epoch(tokens, make, world_size):
    shares = [sequences(make(tokens, rank=rank, world_size=world_size)) for rank in range(world_size)]
    assert sorted(sum(shares, [])) == list(range(100))
    even = [sequences(make(tokens, rank=rank, world_size=world_size, drop_last=True)) for rank in range(world_size)]
    assert {len(share) for share in even} == {100 // (8 * world_size) * 8}
    assert len(set(sum(even, []))) == len(sum(even, []))


@pytest.mark.parametrize("taken", [0, 1, 5, 13])
def test_a_state_resumes_at_the_next_batch(tokens, make, taken):
    whole = sequences(make(tokens, seed=4, epoch=2))
    first = make(tokens, seed=4, epoch=2)
    for _ in range(taken):
        next(first)
    later = make(tokens, seed=4)
    next(later)
    later.load_state_dict(first.state_dict())
    assert sequences(later) == whole[taken * 8:]
    later.set_epoch(2)
    assert sequences(later) == whole


@pytest.mark.parametrize("name,value", [("seed", 9), ("batch_size", 4), ("world_size", 2), ("shuffle", False)])
def test_a_state_of_other_settings_is_refused_by_the_settings_name(tokens, make, name, value):
    state = make(tokens, **{name: value}).state_dict()
    prefetcher = make(tokens)
    with pytest.raises(data.DataError, match=f"load a state: {name} was {value}"):
        prefetcher.load_state_dict(state)
    assert len(sequences(prefetcher)) == 100


@pytest.mark.parametrize("change", [{"position": 99}, {"position": -1}, {"epoch": None}, {"index": "other"}])
def test_a_state_that_is_none_is_refused(tokens, make, change):
    prefetcher = make(tokens)
    with pytest.raises(data.DataError, match="load a state"):
        prefetcher.load_state_dict({**prefetcher.state_dict(), **change})


@pytest.mark.parametrize("seed", range(8))
def test_ranges_of_any_length_come_as_they_are(path, content, make, seed):
    source = random.Random(seed)
    records = [(path, offset, source.randint(1, min(5000, len(content) - offset)))
               for offset in (source.randrange(len(content)) for _ in range(200))]
    by_length = sorted(content[offset:offset + length] for _, offset, length in records)
    found = []
    for memory, places in make(data.RecordIndex.ranges(records), 16, coalesce_gap=source.choice([0, 100, 100000])):
        found += [memory[begin:end].tobytes() for begin, end in zip(places, places[1:])]
    assert sorted(found) == by_length


@pytest.mark.parametrize("name", ["pipe.bin", "pipe.npy"])
def test_a_pipe_in_place_of_a_file_is_told_at_once(tmp_path, path, name):
    os.mkfifo(tmp_path / name)
    for call in (lambda: data.RecordIndex.tokens([tmp_path / name], 8),
                 lambda: data.RecordIndex.ranges([(path, 0, 9), (tmp_path / name, 0, 1)])):
        with pytest.raises(data.DataError, match=f"{name}: it is (a pipe, where|no) a? ?regular file"):
            call()


def test_neighbours_are_one_read(path, make):
    index = data.RecordIndex.ranges([(path, 1000 * at, 900) for at in range(100)])
    near, apart = (make(index, 100, coalesce_gap=gap, shuffle=False) for gap in (100, 99))
    next(near), next(apart)
    assert near.statistics()["bytes"] == 99 * 1000 + 900
    assert apart.statistics()["bytes"] == 100 * 900
    assert sum(near.statistics()["bytes_by_path"].values()) == near.statistics()["bytes"]


@pytest.mark.parametrize("record", [(-1, 5), (0, 0), (5, -2), (1 << 20, 1), (1, 1 << 20), (2**63 - 1, 2**63 - 1)])
def test_ranges_that_a_file_does_not_have_are_refused(path, record):
    with pytest.raises(data.DataError, match="record 1 is .* and .*data.bin has 1048576"):
        data.RecordIndex.ranges([(path, 0, 1), (path, *record)])


def npy(shape, descr="<u2", body=b"1234", version=1):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(header)) + header + body


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00\xff\xff{", npy("(3,)"), npy("(2**70,)"),
                                     npy(f"({2**70},)"), npy("(-1,)"), npy("(2, 1)"), npy("(2,)", "<u4"),
                                     npy("(2,)", "|O"),
                                     npy("(2,)", version=9)])
def test_a_file_that_lies_about_its_tokens_is_refused(tmp_path, content):
    (tmp_path / "lies.npy").write_bytes(content)
    with pytest.raises(data.DataError, match="lies.npy: it"):
        data.RecordIndex.tokens([tmp_path / "lies.npy"], 1)


def test_half_a_token_is_refused(tmp_path):
    (tmp_path / "odd.bin").write_bytes(b"123")
    with pytest.raises(data.DataError, match="its 3 bytes are no whole number of uint16 tokens"):
        data.RecordIndex.tokens([tmp_path / "odd.bin"], 1)


def test_a_failure_is_raised_at_its_batch_which_can_be_read_again(tokens, make, tmp_path):
    content = (tmp_path / "a.bin").read_bytes()
    prefetcher = make(tokens, 10, shuffle=False)
    os.truncate(tmp_path / "a.bin", 25 * SEQUENCE * 2)
    assert [int(next(prefetcher)[0, 0]) // SEQUENCE for _ in range(2)] == [0, 10]
    for _ in range(3):
        with pytest.raises(data.DataError, match="a.bin: expected 32 bytes at 800, it has 800: it was cut"):
            next(prefetcher)
    (tmp_path / "a.bin").write_bytes(content)
    assert sequences(prefetcher) == list(range(20, 100))


def test_memory_is_bounded_by_the_window(tokens, make):
    memories = {batch.__array_interface__["data"][0] for batch in make(tokens, 4, window_batches=3)}
    assert len(memories) == 3
    batch = 4 * SEQUENCE * 2
    memories = {each.__array_interface__["data"][0]
                for each in make(tokens, 4, window_batches=9, window_bytes=2 * batch, coalesce_gap=0)}
    assert len(memories) == 2
    with pytest.raises(ValueError, match="expected room for two batches"):
        make(tokens, 4, window_bytes=2 * batch - 1, coalesce_gap=0)


@pytest.mark.parametrize("setting", [{"batch_size": 0}, {"seed": -1}, {"rank": 1}, {"world_size": 0}, {"epoch": -1}])
def test_settings_that_make_no_sense_are_named(tokens, make, setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        make(tokens, **setting)


def test_no_records_are_no_batches(make):
    assert list(make(data.RecordIndex.ranges([]))) == []
    assert list(make(data.RecordIndex.tokens([], 4))) == []


@pytest.mark.parametrize("is_shuffled", [True, False])
def test_each_iteration_after_an_end_is_an_epoch(tokens, make, is_shuffled):
    """As of every loader: the second one is not empty."""
    prefetcher = make(tokens, 8, shuffle=is_shuffled, seed=3)
    epochs = [sequences(prefetcher) for _ in range(3)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(100))] * 3
    assert epochs == [sequences(make(tokens, 8, shuffle=is_shuffled, seed=3, epoch=epoch)) for epoch in range(3)]
    assert is_shuffled == (epochs[0] != epochs[1])
    assert next(prefetcher, None) is None and prefetcher.state_dict()["epoch"] == 2
    prefetcher.set_epoch(1)
    assert sequences(prefetcher) == epochs[1]


def test_an_iteration_that_was_left_goes_on_and_a_state_of_an_end_is_an_end(tokens, make):
    prefetcher = make(tokens, 10, shuffle=False)
    for _ in prefetcher:
        break
    assert sequences(prefetcher) == list(range(10, 100))
    later = make(tokens, 10, shuffle=False)
    later.load_state_dict(prefetcher.state_dict())
    assert sequences(later) == [] and sequences(later) == list(range(100))


def test_what_would_be_empty_for_ever_is_told(tokens, make, tmp_path):
    (tmp_path / "none.bin").write_bytes(b"")
    with pytest.raises(data.DataError, match="no record in .*a.bin and others: .* 1000000000 tokens of uint16"):
        data.RecordIndex.tokens(tokens.paths, 10 ** 9)
    assert len(data.RecordIndex.tokens([tmp_path / "none.bin", *tokens.paths], SEQUENCE)) == len(tokens)
    with pytest.raises(data.DataError, match="drop_last .* 100 records are fewer than one batch of 64 for each of 2"):
        make(tokens, 64, drop_last=True, world_size=2)


@pytest.mark.parametrize("name", ["a.npy", "a.bin", "a.tar"])
def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(tmp_path, make, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises((OSError, data.DataError), match=f"{name}: it is a pipe|no record in .*{name}"):
        (data.RecordIndex.tars if name == "a.tar" else lambda paths: data.RecordIndex.tokens(paths, 4))(
            [tmp_path / name])


def test_a_file_that_becomes_a_pipe_is_told_at_its_batch(tokens, make, tmp_path):
    (tmp_path / "a.bin").unlink()
    os.mkfifo(tmp_path / "a.bin")
    with pytest.raises(penstock.UnsupportedError, match="a.bin: could not open the file: it is a pipe"):
        next(make(tokens))


def test_an_index_shows_what_it_has(tokens, path):
    assert repr(tokens) == f"<penstock.data.RecordIndex: 100 records of {SEQUENCE} uint16 tokens, {200 * SEQUENCE} " \
        "bytes in 2 files>"
    assert repr(data.RecordIndex.ranges([(path, 0, 5)])) == "<penstock.data.RecordIndex: 1 records, 5 bytes in 1 files>"


def test_a_closed_one_says_so_and_leaves_no_descriptor(tokens, make):
    before = len(os.listdir("/proc/self/fd"))
    prefetcher = make(tokens)
    next(prefetcher)
    prefetcher.close()
    assert len(os.listdir("/proc/self/fd")) <= before + 2  # The session's own, which its first request makes.
    with pytest.raises(penstock.ClosedError, match="the prefetcher is closed"):
        next(prefetcher)
    prefetcher.close()


def test_others_fork_meanwhile(tokens, make):
    prefetcher = make(tokens, seed=3)
    next(prefetcher)
    child = os.fork()
    if child == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert len(sequences(prefetcher)) == 92


def test_a_late_read_is_an_error_and_closing_waits_for_none(held_file, slow_session):
    index = data.RecordIndex.ranges([(held_file.path, 0, 4096)])
    with data.Prefetcher(index, 1, session=slow_session, timeout=0.05) as prefetcher:
        with pytest.raises(penstock.TimedOutError):
            next(prefetcher)
        held_file.let_go()


def test_a_forked_child_is_told_and_ends_while_the_parent_goes_on(path, make):
    index = data.RecordIndex.ranges([(path, 1000 * at, 900) for at in range(100)])
    prefetcher = make(index, 10, shuffle=False)
    next(prefetcher)
    child = os.fork()
    if child == 0:
        try:
            next(prefetcher)
        except penstock.ClosedError:
            prefetcher.close()
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert len(list(prefetcher)) == 9


@pytest.mark.parametrize("seed", range(int(os.environ.get("PENSTOCK_SIMULATED", "0")) or 60))
def test_whatever_happens_the_order_is_that_of_seed_and_epoch(tmp_path, make, seed):
    """Any settings; ranks that are stopped anywhere and resumed by their state, and reads that fail in between."""
    source = random.Random(seed)
    count, world_size = source.randint(1, 120), source.randint(1, 4)
    path = tmp_path / "a.bin"
    np.arange(count, dtype=np.uint16).tofile(path)
    content = path.read_bytes()
    index = data.RecordIndex.tokens([path], 1)
    settings = {"batch_size": source.randint(1, 9), "seed": source.randrange(100), "epoch": source.randrange(3),
                "shuffle": source.random() < 0.8, "shuffle_window": source.choice([0, 0, 7, 30]),
                "world_size": world_size}
    # Where that would leave nothing at all, it is refused.
    settings["drop_last"] = source.random() < 0.5 and len(index) >= settings["batch_size"] * world_size

    def take(prefetcher, into, most=10**9):
        """Up to so many batches, or until one fails: that is read again by the next call."""
        for _ in range(most):
            try:
                batch = next(prefetcher, None)
            except data.DataError:
                return
            if batch is None:
                return
            into.append([int(token) for token in batch[:, 0]])

    shares = []
    for rank in range(world_size):
        def fresh(rank=rank):
            return make(index, rank=rank, window_batches=source.randint(2, 6), coalesce_gap=source.choice([0, 64]),
                        timeout=source.choice([None, 60]), **settings)

        whole, found, state = [], [], fresh().state_dict()
        take(fresh(), whole)
        while len(found) < len(whole):
            one = make(index, rank=rank, **{**settings, "epoch": 0})
            one.load_state_dict(json.loads(json.dumps(state)))
            if source.random() < 0.3:
                os.truncate(path, source.randrange(len(content)))
                take(one, found, source.randint(0, 5))
                path.write_bytes(content)
            take(one, found, source.randint(0, 5))
            state = one.state_dict()
            one.close()
        assert found == whole
        shares += [record for batch in whole for record in batch]
    assert len(set(shares)) == len(shares) and set(shares) <= set(range(count))
    if settings["drop_last"]:
        assert len(shares) == count // (settings["batch_size"] * world_size) * settings["batch_size"] * world_size
    else:
        assert len(shares) == count
