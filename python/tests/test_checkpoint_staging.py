# SPDX-License-Identifier: Apache-2.0

"""Saves that go on behind a trainer: what they save, how long it stands still, and what becomes of failures."""

import errno
import os
import pickle
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from penstock import checkpoint, files
from penstock.checkpoint import staging as staging_module, storing
from penstock.checkpoint.distributed import Reader
from penstock.checkpoint.windowed import WindowedWriter
from tensors import DEVICES, raw

import torch.distributed.checkpoint as dcp
from waiting import SECONDS_MAX

STAGINGS = ["staged", "windowed"]
take = staging_module.HostCopies.take


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def state_on(device):
    torch.manual_seed(3)
    return {"w": torch.randn(1000, 33, device=device), "turned": torch.randn(40, 7, device=device).t(), "n": 1,
            "half": torch.ones(5, dtype=torch.bfloat16, device=device), "none": torch.zeros(0, 2, device=device)}


def copy_of(state):
    return {name: value.clone() if hasattr(value, "clone") else value for name, value in state.items()}


def change(state):
    for value in state.values():
        if hasattr(value, "fill_"):
            value.fill_(7)


@pytest.mark.parametrize(("staging", "writers"), [("staged", 3), ("overlapped", 3), ("windowed", 16)])
def test_a_quarter_of_the_processors_writes_beside_a_trainer(staging, writers, tmp_path, monkeypatch):
    """Each file has a thread only while the trainer stands still."""
    counts, for_each = [], storing.for_each

    def counted(work, things, most):
        counts.append(most)
        for_each(work, things, most)

    monkeypatch.setattr(storing, "for_each", counted)
    monkeypatch.setattr(storing, "FILE_BYTES_MIN", 1000)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(12))
    state = {f"{number}": torch.full((1000,), number) for number in range(20)}
    with checkpoint.Saver(staging) as saver:
        saver.save(state, tmp_path / "a").result(60)
    assert counts == [writers, 16]
    loaded = checkpoint.load(tmp_path / "a")
    assert all(raw(loaded[name]) == raw(state[name]) for name in state)


@pytest.mark.parametrize(("processors", "writers"), [(1, 1), (2, 1), (3, 1), (4, 2), (8, 2), (12, 3), (64, 16)])
def test_few_threads_write_where_processors_are_few(processors, writers, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(processors))
    assert storing.writers_beside() == writers


@pytest.mark.parametrize("staging", STAGINGS)
def test_the_trainer_may_change_the_state_as_soon_as_save_returns(staging, device, tmp_path):
    with checkpoint.Saver(staging) as saver:
        for number in range(3):
            state = state_on(device)
            expected = copy_of(state)
            saving = saver.save(state, tmp_path / f"{number}")
            change(state)
            del expected["n"]
            assert saving.result(60).bytes_done == sum(value.nbytes for value in expected.values())
            loaded = checkpoint.load(tmp_path / f"{number}", device=device)
            assert loaded["n"] == 1 and all(raw(loaded[name]) == raw(expected[name]) for name in expected)


def test_a_staged_save_needs_its_thread_and_not_the_trainers(tmp_path, monkeypatch):
    """Whoever writes is held up until the trainer has gone on."""
    goes_on, write = threading.Event(), storing.Storing.write

    def held_up(self):
        assert goes_on.wait(SECONDS_MAX)
        write(self)

    monkeypatch.setattr(storing.Storing, "write", held_up)
    with checkpoint.Saver() as saver:
        saving = saver.save(state_on("cpu"), tmp_path / "a")
        assert not saving.done() and not (tmp_path / "a" / "checkpoint.json").exists()
        goes_on.set()
        saving.result(60)
    assert checkpoint.verify(tmp_path / "a").names == 4


def test_a_windowed_save_leaves_flushing_for_later_and_copies_nothing(tmp_path, monkeypatch):
    goes_on, publish = threading.Event(), files.NewFile.publish

    def held_up(self):
        assert goes_on.wait(SECONDS_MAX)
        publish(self)

    monkeypatch.setattr(files.NewFile, "publish", held_up)
    with checkpoint.Saver("windowed") as saver:
        saving = saver.save(state_on("cpu"), tmp_path / "a")
        assert not saving.done() and saving.staged_bytes == 0
        goes_on.set()
        saving.result(60)
    assert checkpoint.latest(tmp_path) == tmp_path / "a"


def test_the_copy_of_the_state_is_made_once_and_kept(device, tmp_path):
    with checkpoint.Saver() as saver:
        first = saver.save(state_on(device), tmp_path / "a")
        memory = {name: id(copy) for name, copy in saver._copies.memory.items()}
        second = saver.save(state_on(device), tmp_path / "b")
        assert {name: id(copy) for name, copy in saver._copies.memory.items()} == memory
        assert first.staged_bytes == second.staged_bytes == 1000 * 33 * 4 + 40 * 7 * 4 + 10


@pytest.mark.parametrize("staging", ["staged", "overlapped"])
def test_a_save_that_was_interrupted_keeps_its_copies_for_itself(staging, tmp_path, monkeypatch):
    """Ctrl-C when the thread has begun, and before save() has returned: the next save takes other memory."""
    class Interrupted(staging_module.Saving):
        def __init__(self, *_):
            raise KeyboardInterrupt

    state = {"w": torch.zeros(1000)}
    with checkpoint.Saver(staging) as saver:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(staging_module, "Saving", Interrupted)
            taken = []
            patched.setattr(staging_module.HostCopies, "take",
                            lambda copies, *rest, **more: taken.append(take(copies, *rest, **more)) or taken[-1])
            saver.save(state, tmp_path / "a")
        state["w"].fill_(1)
        saver.save(state, tmp_path / "b").result(60)
        [copy], [newer] = taken[0].memory.values(), saver._copies.memory.values()
        assert copy is not newer and not copy.any()
    assert raw(checkpoint.load(tmp_path / "b")["w"]) == raw(state["w"])


def fail(self):
    raise OSError(errno.EIO, "the drive is gone")


@pytest.mark.parametrize("ask", ["result", "next save", "close"])
def test_a_failure_is_told_once_to_who_asks_first(ask, tmp_path, monkeypatch):
    saver = checkpoint.Saver()
    with monkeypatch.context() as patched:
        patched.setattr(storing.Storing, "write", fail)
        saving = saver.save(state_on("cpu"), tmp_path / "a")
        with pytest.raises(OSError, match="the drive is gone"):
            if ask == "result":
                saving.result(60)
            elif ask == "next save":
                saver.save(state_on("cpu"), tmp_path / "b")
            else:
                saver.close()
    if ask != "close":
        saver.save(state_on("cpu"), tmp_path / "c").result(60)
        saver.close()
        assert checkpoint.latest(tmp_path) == tmp_path / "c"


def test_a_windowed_save_that_cannot_be_written_is_told_at_once_and_leaves_the_older_one(tmp_path, monkeypatch):
    with checkpoint.Saver("windowed") as saver:
        saver.save(state_on("cpu"), tmp_path / "a").result(60)
        monkeypatch.setattr(storing.Storing, "_write", lambda self, file: fail(self))
        with pytest.raises(OSError, match="the drive is gone"):
            saver.save(state_on("cpu"), tmp_path / "a")
    assert checkpoint.verify(tmp_path / "a").names == 4


@pytest.mark.parametrize("staging", STAGINGS)
def test_a_save_in_the_background_outlives_the_end_of_the_program(staging, tmp_path):
    program = ("import sys, torch\n"
               "from penstock import checkpoint\n"
               "saver = checkpoint.Saver(sys.argv[1])\n"
               "saver.save({str(i): torch.ones(1 << 20) for i in range(20)}, sys.argv[2])\n")

    subprocess.run([sys.executable, "-c", program, staging, str(tmp_path / "a")], check=True)

    assert checkpoint.verify(tmp_path / "a").names == 20


def test_a_forked_child_is_told_to_make_a_saver_of_its_own(tmp_path):
    with checkpoint.Saver() as saver:
        saver.save(state_on("cpu"), tmp_path / "a").result(60)
        child = os.fork()
        if child == 0:
            try:
                saver.save(state_on("cpu"), tmp_path / "b")
            except RuntimeError as error:
                os._exit(7 if "make another one here" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("staging", ["staged", "windowed"])
def test_a_saver_that_is_closed_says_so_and_writes_nothing(staging, tmp_path):
    with checkpoint.Saver(staging, durable=False) as saver:
        saver.save({"a": torch.ones(3)}, tmp_path / "a")
    with pytest.raises(RuntimeError, match="this Saver is closed: make another one"):
        saver.save({"a": torch.ones(3)}, tmp_path / "b")
    assert os.listdir(tmp_path) == ["a"]


def test_what_is_not_known_is_refused():
    with pytest.raises(ValueError, match="staging is 'fast': expected one of staged, windowed, overlapped"):
        checkpoint.Saver("fast")


def test_torchs_async_save_returns_when_the_state_may_change_and_flushes_later(device, tmp_path, monkeypatch):
    goes_on, publish = threading.Event(), files.NewFile.publish

    def held_up(self):
        assert goes_on.wait(SECONDS_MAX)
        publish(self)

    monkeypatch.setattr(files.NewFile, "publish", held_up)
    state = {"a": torch.arange(100_000.0, device=device), "b": {"c": torch.ones(5, device=device)}}
    writer = WindowedWriter(tmp_path / "a")
    future = dcp.async_save(state, storage_writer=writer, no_dist=True)
    state["a"].zero_()
    assert not future.done() and writer.stopped_s > 0
    goes_on.set()
    future.result(60)
    loaded = {"a": torch.zeros(100_000), "b": {"c": torch.zeros(5)}}
    dcp.load(loaded, storage_reader=Reader(tmp_path / "a"), no_dist=True)
    assert torch.equal(loaded["a"], torch.arange(100_000.0))


def test_an_async_save_that_fails_before_it_writes_keeps_nobody_waiting(tmp_path):
    class Failing(dcp.DefaultSavePlanner):
        def create_local_plan(self):
            raise RuntimeError("no plan")

    writer = WindowedWriter(tmp_path / "a")
    future = dcp.async_save({"a": torch.ones(3)}, storage_writer=writer, planner=Failing(), no_dist=True)
    with pytest.raises(BaseException, match="no plan"):
        future.result(60)


def test_another_process_is_refused_a_state_that_it_cannot_read(tmp_path):
    with pytest.raises(checkpoint.CheckpointError, match="AsyncCheckpointerType.THREAD"):
        pickle.dumps(WindowedWriter(tmp_path / "a"))
