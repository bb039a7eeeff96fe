# SPDX-License-Identifier: Apache-2.0

"""Samples of tars, shuffled within windows, and what happens with a drive that does not answer."""

import io
import os
import random
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest

import penstock
from penstock import data
from waiting import SECONDS_MAX, wait_until


def pack(path, members, **options):
    """(name, content) each, in that order."""
    with tarfile.open(path, "w", **options) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def content(number, size):
    return random.Random(number).randbytes(size)


def expected(first, count):
    """Of each sample's key its parts: an image of any size, an empty note, and a class."""
    return {f"train/{number:05d}": {"seg.png": content(number, 1 + number * 977 % 9000), "note": b"",
                                    "cls": str(number).encode()} for number in range(first, first + count)}


@pytest.fixture
def shards(tmp_path):
    for shard, form in enumerate((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT)):
        members = [(f"{key}.{name}", part) for key, parts in expected(20 * shard, 20).items()
                   for name, part in parts.items()]
        members.insert(7 * 3, ("README", b"no part of any sample"))
        pack(tmp_path / f"{shard}.tar", members, format=form)
    return [tmp_path / f"{shard}.tar" for shard in range(3)]


def parts_of(samples):
    return {sample["__key__"]: {name: bytes(np.asarray(part)) for name, part in sample.items() if name != "__key__"}
            for sample in samples}


@pytest.fixture
def make(session):
    made = []

    def prefetcher(index, batch_size=7, session=session, **options):
        made.append(data.Prefetcher(index, batch_size, session=session, **options))
        return made[-1]

    yield prefetcher
    for each in made:
        each.close()


@pytest.mark.parametrize("options", [{"shuffle": False}, {"seed": 5}, {"shuffle_window": 10}, {"coalesce_gap": 0}])
def test_every_sample_comes_once_with_all_of_its_parts(shards, make, options):
    found = {}
    for batch in make(data.RecordIndex.tars(shards), **options):
        found.update(parts_of(batch))
    assert found == expected(0, 60)


def test_tensors_are_views_of_one_batch(shards, make):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for batch in make(data.RecordIndex.tars(shards), device="cpu"):
        assert all(isinstance(sample["seg.png"], torch.Tensor) for sample in batch)
        assert parts_of(batch) == {sample["__key__"]: expected(0, 60)[sample["__key__"]] for sample in batch}


def test_neighbours_of_a_tar_are_one_read_and_apart_they_are_not(shards, make):
    index = data.RecordIndex.tars(shards[:1])
    near = make(index, 20, shuffle=False)
    next(near)
    assert near.statistics()["bytes"] == index.offset[-1] + index.length[-1] - index.offset[0]
    apart = make(index, 20, shuffle=False, coalesce_gap=0)
    next(apart)
    assert apart.statistics()["bytes"] == index.length.sum()


def test_indexes_of_other_tars_are_told_apart(shards, tmp_path):
    one = data.RecordIndex.tars(shards)
    assert one.fingerprint() == data.RecordIndex.tars(shards).fingerprint()
    other = pack(tmp_path / "other.tar", [("a.x", b"1"), ("b.x", b"2")])
    renamed = data.RecordIndex.tars([other]).fingerprint()
    pack(other, [("a.x", b"1"), ("c.x", b"2")])
    assert data.RecordIndex.tars([other]).fingerprint() != renamed


@pytest.mark.parametrize("make_it,sentence", [
    (lambda path: path.write_bytes(b"no tar" * 1000), "it is no tar, or a compressed one"),
    (lambda path: pack(path.with_suffix(".gz"), [("a.x", b"1")]).rename(path)
     and path.write_bytes(__import__("gzip").compress(path.read_bytes())), "it is no tar, or a compressed one"),
    (lambda path: pack(path, [("a.x", b"1"), ("a.x", b"2")]), "sample a has two parts named x"),
    (lambda path: os.truncate(pack(path, [("a.x", b"1"), ("a.y", bytes(100_000))]), 60_000), "was it cut|it is no tar"),
])
def test_what_is_no_tar_of_samples_is_refused_by_its_name(tmp_path, make_it, sentence):
    make_it(tmp_path / "odd.tar")
    with pytest.raises(data.DataError, match=f"odd.tar: .*({sentence})"):
        data.RecordIndex.tars([tmp_path / "odd.tar"])


def test_a_pipe_in_place_of_a_tar_is_told_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.tar")
    with pytest.raises(data.DataError, match="pipe.tar: it is a pipe, where a regular file is wanted"):
        data.RecordIndex.tars([tmp_path / "pipe.tar"])


@pytest.mark.parametrize("seed", range(200))
def test_damaged_headers_are_refused_or_give_ranges_of_the_file(tmp_path, seed):
    path, source = pack(tmp_path / "odd.tar", [(f"{i}.x", bytes(700)) for i in range(8)]), random.Random(seed)
    damaged = bytearray(path.read_bytes())
    for _ in range(source.randint(1, 8)):
        damaged[source.randrange(len(damaged))] = source.randrange(256)
    path.write_bytes(damaged)
    try:
        index = data.RecordIndex.tars([path])
    except data.DataError:
        return
    assert (index.offset + index.length <= len(damaged)).all()


def test_tars_without_any_sample_are_told(tmp_path):
    path = pack(tmp_path / "a.tar", [("README", b"1")])
    with pytest.raises(data.DataError, match="there is no sample in .*a.tar: expected files whose names have a dot"):
        data.RecordIndex.tars([path])
    assert len(data.RecordIndex.tars([path, pack(tmp_path / "b.tar", [("1.x", b"1")])])) == 1


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_parts_are_called_in_small_letters_and_samples_as_they_are(tmp_path, make, form):
    with tarfile.open(tmp_path / "a.tar", "w", format=form) as tar:
        for name, content in (("./N1/X_10.JPEG", b"a"), ("./N1/X_10.Seg.PNG", b"b"), ("./N1/x_10.jpeg", b"c")):
            member = tarfile.TarInfo(name)
            member.size = 1
            tar.addfile(member, io.BytesIO(content))
    samples = [sample for batch in make(data.RecordIndex.tars([tmp_path / "a.tar"]), 1, shuffle=False)
               for sample in batch]
    assert [{name: part if name == "__key__" else bytes(part) for name, part in sample.items()} for sample in samples
            ] == [{"__key__": "./N1/X_10", "jpeg": b"a", "seg.png": b"b"}, {"__key__": "./N1/x_10", "jpeg": b"c"}]


def test_two_parts_that_differ_in_the_size_of_letters_alone_are_told(tmp_path):
    with pytest.raises(data.DataError, match="sample a has two parts named jpg"):
        data.RecordIndex.tars([pack(tmp_path / "a.tar", [("a.jpg", b"1"), ("a.JPG", b"2")])])


def test_a_shuffle_window_keeps_neighbours_near_and_the_rest_is_shuffled(tmp_path, make):
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "a.bin")
    index = data.RecordIndex.tokens([tmp_path / "a.bin"], 1)

    def order(**options):
        return [int(token) for batch in make(index, 50, **options) for token in batch[:, 0]]

    near = order(shuffle_window=100, seed=3)
    assert sorted(near) == list(range(1000)) and near == order(shuffle_window=100, seed=3)
    windows = [number // 100 for number in near]
    assert windows[::100] != sorted(windows[::100]) and all(len(set(windows[i:i + 100])) == 1
                                                            for i in range(0, 1000, 100))
    assert near[:100] != sorted(near[:100]) and near != order(shuffle_window=100, seed=4)
    with pytest.raises(ValueError, match="shuffle_window is -1"):
        make(index, shuffle_window=-1)


def test_time_that_nothing_is_read_since_the_window_is_full_is_told(tmp_path, make):
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "a.bin")
    prefetcher = make(data.RecordIndex.tokens([tmp_path / "a.bin"], 1), 10, window_batches=3)
    next(prefetcher)
    while not all(flight.is_over for flight in prefetcher._flights):
        time.sleep(0.001)
    began = time.monotonic()
    while time.monotonic() - began < 0.05:  # The program works on its batch.
        pass
    next(prefetcher)
    assert prefetcher.statistics()["idle_seconds"] >= 0.05
    assert prefetcher.statistics()["waited_seconds"] >= 0


def test_pinned_memory_needs_a_gpu(tmp_path, make):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    np.arange(10, dtype=np.uint16).tofile(tmp_path / "a.bin")
    with pytest.raises(penstock.UnsupportedError, match="leave pin_memory out"):
        make(data.RecordIndex.tokens([tmp_path / "a.bin"], 1), 2, pin_memory=True)


# ---- Late reads ----


def next_in_time(prefetcher):
    """The batch, once it comes in time: on a busy machine a read that nobody holds up may be late, too."""
    def in_time():
        try:
            return next(prefetcher)
        except penstock.TimedOutError:
            return None

    return wait_until(in_time, "batch in time")


def test_after_a_late_read_others_go_on_and_its_memory_is_left_alone(held_file, slow_session, tmp_path, make):
    quick = tmp_path / "quick.bin"
    quick.write_bytes(bytes(range(200)))
    index = data.RecordIndex.ranges([(held_file.path, 0, 100), (quick, 100, 100)])
    prefetcher = make(index, 1, slow_session, shuffle=False, timeout=0.5, window_batches=4)
    with pytest.raises(penstock.TimedOutError, match="could not read a batch of 1 records within 0.5 s"):
        next(prefetcher)
    assert len(prefetcher._late) >= 1
    state = prefetcher.state_dict()
    prefetcher.load_state_dict({**state, "position": 1})  # Past the one that is late.
    memory, _ = next_in_time(prefetcher)
    assert bytes(memory) == bytes(range(100, 200))
    held_file.let_go()
    assert bytes(memory) == bytes(range(100, 200))


def test_where_all_memory_is_late_it_says_so_until_the_drive_answers(held_file, slow_session, make, content):
    index = data.RecordIndex.ranges([(held_file.path, 0, 4096)])
    prefetcher = make(index, 1, slow_session, timeout=0.3, window_batches=2)
    for _ in range(2):
        with pytest.raises(penstock.TimedOutError, match="within 0.3 s"):
            next(prefetcher)
    with pytest.raises(penstock.TimedOutError, match="all memory of the window is written to by reads that are late"):
        next(prefetcher)
    held_file.let_go()
    memory, _ = next_in_time(prefetcher)
    assert bytes(memory) == content[:4096]


def test_a_drive_that_never_answers_keeps_no_process_from_ending(held_file):
    program = f"""
import penstock
from penstock import data
session = penstock.Session(device="host", io_uring="off")
prefetcher = data.Prefetcher(data.RecordIndex.ranges([({str(held_file.path)!r}, 0, 4096)]), 1, session=session,
                             timeout=0.05)
try:
    next(prefetcher)
except penstock.TimedOutError:
    print("late", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS_MAX)
    assert (done.stdout, done.returncode) == ("late\n", 0), done.stderr
    assert Path(f"{held_file.path}.held").exists()
