# SPDX-License-Identifier: Apache-2.0

"""What a store is given that it cannot use: costs and times that are no numbers, pipes in place of its files, and a
close in the midst of a commit."""

import os
import re
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

import penstock
from penstock import kv
from penstock.kv import names
from penstock.kv.limits import Budget
from penstock.kv.store import _commit_repeatedly

MIB = 1 << 20
CHUNK = 100_000
SETTINGS = {"model": "llama", "capacity_bytes": 16 * MIB, "extent_bytes": MIB}
DONE = kv.Outcome.DONE


def content(key):
    return np.random.default_rng(key).integers(0, 256, CHUNK, dtype=np.uint8)


def put(store, key):
    assert store.put([str(key)], [content(key)]) == [DONE]


@pytest.fixture
def make(tmp_path, session):
    stores = []

    def made(**settings):
        stores.append(kv.Store(tmp_path / "kv", session=session, **{**SETTINGS, **settings}))
        return stores[-1]

    yield made
    for store in stores:
        store.close()


NO_NUMBERS = [float("nan"), float("inf"), -float("inf"), -1.0, 1e39]


@pytest.mark.parametrize("cost", NO_NUMBERS)
def test_a_cost_that_is_no_number_of_seconds_is_refused_with_its_place(make, cost):
    store = make(eviction="cost")
    with pytest.raises(ValueError, match=re.escape(f"costs[1]={cost}: expected seconds, from 0 to 1e+38")):
        store.put(["1", "2"], [content(1), content(2)], costs=[1.0, cost])
    assert store.lookup(["1", "2"]) == [False, False] and store.failure is None
    with pytest.raises(ValueError, match=re.escape("costs has 1 values for 2 keys: expected one for each")):
        store.put(["1", "2"], [content(1), content(2)], costs=[1.0])
    assert store.put(["1", "2"], [content(1), content(2)], costs=np.array([0.0, 2.5])) == [DONE, DONE]


def test_a_time_that_is_no_number_is_refused(make, tmp_path, session):
    for commit_s in (float("nan"), float("inf"), 0, -1.0):
        with pytest.raises(ValueError, match=f"^commit_s={commit_s}: expected seconds, more than 0"):
            make(commit_s=commit_s)
    store = make()
    put(store, 1)
    with pytest.raises(ValueError, match="^timeout=nan: expected seconds, or None for no limit$"):
        store.get(["1"], [bytearray(CHUNK)], timeout=float("nan"))
    (tmp_path / "file").write_bytes(bytes(4096))
    with session.open(tmp_path / "file") as file, pytest.raises(ValueError, match="^timeout=nan: expected seconds"):
        file.read_async(bytearray(10), timeout=float("nan"))


# A test that hangs here has found what it looks for.
@pytest.mark.parametrize("name", ["journal", "slab", "lease"])
def test_a_pipe_in_place_of_a_file_is_refused_with_its_name(make, tmp_path, session, name):
    with make() as store:
        put(store, 1)
        folder = Path(store.state()["drives"][0]["folder"])
    pipe = folder / "0" / name
    pipe.unlink()
    os.mkfifo(pipe)
    for settings in ({}, {"read_only": True}):
        if name == "lease" and settings:
            continue  # Only writers look at it.
        with pytest.raises(penstock.UnsupportedError, match=f"{re.escape(str(pipe))}: it is neither a regular file"):
            make(**settings)
    if name == "lease":
        with pytest.raises(OSError, match="it is a pipe, where a regular file is wanted"):
            kv.purge(tmp_path / "kv", model="llama")


def test_a_pipe_in_place_of_what_was_written_today_counts_as_nothing(tmp_path):
    os.mkfifo(tmp_path / "written")
    budget = Budget(tmp_path, 10)
    assert budget.take(10)
    budget.save()
    assert not Budget(tmp_path, 10).take(1)


class ClosedJustThen(threading.Event):
    """The store is closed after the thread that commits has looked whether it is, and before it commits."""

    def __init__(self, store):
        super().__init__()
        self._store = store

    def wait(self, timeout=None):
        if self.is_set():
            return True
        self._store._ended = self
        self._store.close()
        return False


def test_a_store_that_is_closed_while_its_thread_commits_has_not_failed(make):
    store = make(commit_s=3600)
    put(store, 1)
    _commit_repeatedly(weakref.ref(store), ClosedJustThen(store), 0.01)
    assert store.failure is None


def test_what_a_commit_of_the_thread_fails_with_is_kept(make, monkeypatch):
    store = make(commit_s=3600)
    turns = iter([False, True])
    ended = threading.Event()
    monkeypatch.setattr(ended, "wait", lambda seconds: next(turns))
    failure = penstock.ClosedError("the session was closed before the store")
    monkeypatch.setattr(store._drives[0], "commit", lambda: (_ for _ in ()).throw(failure))
    _commit_repeatedly(weakref.ref(store), ended, 0.01)
    assert store.failure is failure


def test_a_key_is_its_bytes_and_what_has_none_is_refused(tmp_path):
    with kv.Store(tmp_path, model="m", capacity_bytes=1 << 20, extent_bytes=1 << 20) as store:
        assert store.put(["kéy"], [b"1"]) == [kv.Outcome.DONE]
        for key in ("kéy".encode(), bytearray("kéy".encode()), memoryview("kéy".encode())):
            assert store.lookup(each for each in ("another", key)) == [False, True]
        for wrong in ("key", b"key", [None], ["\ud800"], None):
            with pytest.raises((TypeError, UnicodeEncodeError)):
                store.lookup(wrong)


def test_names_that_are_remembered_are_those_that_were_made(monkeypatch):
    monkeypatch.setattr(names, "_REMEMBERED_MOST", 10)
    namer = names.Namer("m", "", "", b"salt")
    keys = [b"%d" % i for i in range(15)] + ["3", b"", bytearray(b"3")]
    first = [namer.chunks([key]) for key in keys]
    assert len(set(first)) == 16 and first[3] == first[15] == first[17]
    assert namer.chunks(keys) == namer.chunks(tuple(keys)) == b"".join(first)
    assert all(0 < len(known) <= 10 for known in namer._names.values())
    assert names.Namer("m", "", "", b"other").chunks(keys) != b"".join(first)


def test_a_key_that_can_be_written_to_is_no_key_of_a_dictionary_and_a_long_one_is_not_kept():
    namer = names.Namer("m", "", "", b"salt")
    first = namer.chunks([b"k"])
    for key in (memoryview(bytearray(b"k")), bytearray(b"k"), memoryview(b"k"), "k"):
        assert namer.chunks([key]) == first and namer.chunks([b"k", key, "k"]) == 3 * first
    assert namer.chunks([256 * b"k"]) != namer.chunks([257 * b"k"]) == namer.chunks([257 * "k"])
    assert [sorted(map(len, known)) for known in namer._names.values()] == [[1, 256], [1]]


def test_bytes_are_not_compared_with_text():
    code = ('from penstock.kv.names import Namer; namer = Namer("m", "", "", b"");'
            'assert namer.chunks([b"a"]) == namer.chunks(["a"]); namer.chunks([b"a", "a"])')
    subprocess.run([sys.executable, "-bb", "-c", code], check=True)
