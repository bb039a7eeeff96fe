# SPDX-License-Identifier: Apache-2.0

"""Checkpoints of odd states, of hostile files, and while others save."""

import argparse
import dataclasses
import datetime
import enum
import errno
import os
import signal
import sys
import threading
from collections import deque
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
numpy = pytest.importorskip("numpy", reason="numpy is not installed")

import torch.distributed.checkpoint as dcp

import penstock
from penstock import checkpoint, threads, weights
from penstock.checkpoint import ids, layout, leases, leftovers, memory, publishing, reading, retention, verifying
from penstock.checkpoint.distributed import Reader, Writer
from penstock.checkpoint.safetensors import SafetensorsWriter
from saves import short_of_descriptors
from waiting import SECONDS_MAX

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


@pytest.fixture(autouse=True)
def soon():
    """A test that waits for ever fails."""
    signal.alarm(60)
    yield
    signal.alarm(0)


def test_a_target_of_another_dtype_gets_the_values_and_not_the_bytes(tmp_path):
    dcp.save({"a": torch.arange(12.0).view(3, 4), "n": torch.tensor(3.0)}, storage_writer=Writer(tmp_path / "a"),
             no_dist=True)
    for dtype in (torch.bfloat16, torch.float64, torch.int64):
        state = {"a": torch.zeros(3, 4, dtype=dtype), "n": torch.zeros((), dtype=dtype)}
        dcp.load(state, storage_reader=Reader(tmp_path / "a"), no_dist=True)
        assert state["a"].tolist() == torch.arange(12.0).view(3, 4).tolist() and state["n"].item() == 3


def test_what_is_conjugated_or_negated_on_access_is_saved_so(tmp_path):
    plain = torch.complex(torch.arange(6.0), torch.ones(6))
    state = {"x": plain, "c": plain.conj(), "i": plain.conj().imag}
    checkpoint.save(state, tmp_path / "a")
    loaded = checkpoint.load(tmp_path / "a")
    assert all(torch.equal(loaded[name], tensor) for name, tensor in state.items())


def tensors_without_memory():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.zeros(3)
    return [torch.zeros(3, device="meta"), torch.eye(3).to_sparse(), torch.eye(3).to_sparse_csr(), fake]


def test_tensors_without_memory_of_their_own_are_refused_by_name(tmp_path):
    for tensor in tensors_without_memory():
        with pytest.raises(checkpoint.CheckpointError, match="model.w is a .* without memory"):
            checkpoint.save({"model": {"w": tensor}}, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_numbers_of_numpy_are_numbers_and_arrays_lie_as_they_like(tmp_path):
    array = numpy.arange(24, dtype=numpy.float32).reshape(4, 6)
    state = {numpy.int64(0): "zero", "n": numpy.float64(2.5), "turned": array.T, "some": array[:, ::2]}
    checkpoint.save(state, tmp_path / "a")
    loaded = checkpoint.load(tmp_path / "a", framework="np")
    assert loaded[0] == "zero" and loaded["n"] == 2.5
    assert loaded["turned"].tolist() == array.T.tolist() and loaded["some"].tolist() == array[:, ::2].tolist()


@pytest.mark.parametrize("name", ["checkpoint.json", "verified.json", "data"])
def test_pipes_in_the_place_of_files_keep_nobody_waiting(tmp_path, name):
    checkpoint.save({"a": torch.ones(3)}, tmp_path / "a")
    checkpoint.verify(tmp_path / "a")
    path = next((tmp_path / "a").glob("*.data")) if name == "data" else tmp_path / "a" / name
    path.unlink()
    os.mkfifo(path)
    if name == "verified.json":
        assert checkpoint.retain(tmp_path, 1) == []
        return
    for use in (checkpoint.load, checkpoint.verify):
        with pytest.raises(checkpoint.CheckpointError, match="no regular file"):
            use(tmp_path / "a")
    assert checkpoint.latest(tmp_path) is None


def test_a_reader_keeps_to_the_checkpoint_whose_metadata_it_read(tmp_path):
    dcp.save({"a": torch.arange(8.0)}, storage_writer=Writer(tmp_path / "a"), no_dist=True)
    reader = Reader(tmp_path / "a")
    read_metadata, saved = reader.read_metadata, []

    def and_then_another_save(*arguments, **options):
        metadata = read_metadata(*arguments, **options)
        if not saved:
            saved.append(True)
            later = {"a": torch.arange(8, dtype=torch.float64) + 100}
            dcp.save(later, storage_writer=Writer(tmp_path / "a"), no_dist=True)
            leftovers.wait_for_removals()
        return metadata

    reader.read_metadata = and_then_another_save
    state = {"a": torch.zeros(8)}
    with pytest.raises(dcp.CheckpointException):  # Its files are gone.
        dcp.load(state, storage_reader=reader, no_dist=True)
    assert state["a"].tolist() == [0.0] * 8


@pytest.mark.parametrize("by", ["itself", "Writer", "SafetensorsWriter"])
@pytest.mark.parametrize("before", ["itself", "Writer", "SafetensorsWriter"])
def test_a_save_after_the_clock_was_put_back_is_still_the_latest(before, by, tmp_path, monkeypatch):
    def save(by, name):
        state = {"a": torch.zeros(3)}
        if by == "itself":
            checkpoint.save(state, tmp_path / name)
        else:
            writer = {"Writer": Writer, "SafetensorsWriter": SafetensorsWriter}[by](tmp_path / name)
            dcp.save(state, storage_writer=writer, no_dist=True)

    save(before, "z")
    now = ids.time.time_ns()
    monkeypatch.setattr(ids.time, "time_ns", lambda: now - 10**15)
    save(by, "b")
    assert checkpoint.latest(tmp_path) == tmp_path / "b"
    save("itself", "a")
    assert checkpoint.retain(tmp_path, 1) == [tmp_path / "z", tmp_path / "b"]


def test_what_a_killed_save_left_in_a_folder_of_its_own_goes_with_the_old_checkpoints(tmp_path):
    checkpoint.save({"a": torch.ones(3)}, tmp_path / "good")
    left = f"{ids.new_save_id(tmp_path / 'a')}-0-0.data"
    for name, file, age in (("killed", left, 1), ("goes on", left, None), ("a stranger's", "train.data", 1)):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text("left")
        if age is not None:
            os.utime(tmp_path / name / file, (age, age))
    (tmp_path / "elsewhere").symlink_to(tmp_path / "a stranger's")
    assert checkpoint.retain(tmp_path, 1) == []
    assert sorted(os.listdir(tmp_path)) == ["a stranger's", "elsewhere", "goes on", "good"]
    assert os.listdir(tmp_path / "a stranger's") == ["train.data"]


@pytest.mark.parametrize("module, name, unread, removed", [(retention, "read_layout", "step-3", "step-1"),
                                                           (verifying, "content_of", "step-1", "step-2")])
def test_what_cannot_be_read_for_a_moment_is_not_removed(tmp_path, monkeypatch, module, name, unread, removed):
    """It may be the newest one, or the newest that was verified."""
    for number in (1, 2, 3):
        checkpoint.save({"a": number}, tmp_path / f"step-{number}")
    if module is verifying:
        checkpoint.verify(tmp_path / unread)
    real = getattr(module, name)

    def read(path, *more):
        if unread in path.parts:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return real(path, *more)

    monkeypatch.setattr(module, name, read)
    assert checkpoint.retain(tmp_path, 1) == [tmp_path / removed]


@pytest.mark.parametrize("name", ["read_summary", "read_layout"])
def test_what_a_shortage_keeps_from_being_read_is_no_reason_to_take_an_older_one(tmp_path, monkeypatch, name, caplog):
    for number in (1, 2):
        checkpoint.save({"a": number}, tmp_path / f"step-{number}")
    real, broken = getattr(retention, name), [errno.EMFILE]

    def read(path, *more):
        if "step-2" in path.parts:
            raise OSError(broken[0], os.strerror(broken[0]), str(path))
        return real(path, *more)

    monkeypatch.setattr(retention, name, read)
    with pytest.raises(OSError, match="Too many open files: .*step-2"):
        checkpoint.latest(tmp_path)
    assert checkpoint.retain(tmp_path, 1) == []
    broken[0] = errno.EIO
    assert checkpoint.latest(tmp_path) == tmp_path / "step-1"
    assert "passed over: [Errno 5] Input/output error" in caplog.text


@pytest.fixture
def set_aside(tmp_path):
    """The file that names a checkpoint, which somebody is about to remove, or to put back."""
    checkpoint.save({"a": 1}, tmp_path / "step-1")
    said = reading.read_summary(tmp_path / "step-1")
    return (tmp_path / "step-1" / layout.NAME).rename(tmp_path / "step-1" / f".{'0' * 16}.{'0' * 8}.removed"), said


@pytest.mark.parametrize("fails", [(os, "listdir"), (reading, "read_description")])
def test_a_shortage_hides_no_checkpoint_that_is_set_aside(set_aside, monkeypatch, fails):
    folder = set_aside[0].parent
    assert checkpoint.latest(folder.parent) == folder
    real = getattr(*fails)
    monkeypatch.setattr(*fails, lambda path: (short_of_descriptors if path in (folder, set_aside[0]) else real)(path))
    with pytest.raises(OSError, match="Too many open files"):
        checkpoint.latest(folder.parent)
    with pytest.raises(OSError, match="Too many open files"):
        checkpoint.load(folder)


def test_a_save_that_failed_keeps_its_lease_where_nobody_sees_what_it_left(tmp_path, monkeypatch):
    lease = ids.new_lease(tmp_path)
    (tmp_path / "left").touch()
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", short_of_descriptors)
    leftovers.give_up(tmp_path, ["left"], lease)
    assert [name for name in listed(tmp_path) if name.endswith(".lease")] and (tmp_path / "left").exists()


def test_a_shortage_lets_no_removal_take_the_files_of_a_save_that_is_running(set_aside, monkeypatch):
    aside, said = set_aside
    lease = leases.take(aside.parent, said.save_id)
    files = {aside.parent / name for name in said.files}
    with monkeypatch.context() as short, pytest.raises(OSError, match="Too many open files"):
        short.setattr(os, "listdir", short_of_descriptors)
        leftovers.finish_removal(aside, said)
    assert all(map(Path.exists, files)) and aside.exists()
    lease.end()
    leftovers.finish_removal(aside, said)
    assert not any(map(Path.exists, [*files, aside]))


def test_a_link_to_the_newest_checkpoint_is_no_checkpoint_more_and_none_less(tmp_path):
    for number in (1, 2, 3):
        checkpoint.save({"a": number}, tmp_path / f"step-{number}")
    (tmp_path / "latest").symlink_to("step-3")
    assert checkpoint.retain(tmp_path, 2) == [tmp_path / "step-1"]
    assert checkpoint.retain(tmp_path, 1) == [tmp_path / "step-2"]
    assert checkpoint.load(tmp_path / "latest") == {"a": 3}


def test_checkpoints_that_go_meanwhile_disturb_neither_a_save_nor_retain(tmp_path, monkeypatch):
    for number in (1, 2, 3):
        checkpoint.save({"a": number}, tmp_path / f"step-{number}")
    listed, known = os.listdir, retention._known

    def go(step):
        checkpoint.remove(tmp_path / step)

    def listed_before(folder):
        names = listed(folder)
        if folder == tmp_path and "step-1" in names:
            go("step-1")
        return names

    def known_before(*asked):
        found = known(*asked)
        go("step-2")
        return found

    monkeypatch.setattr(retention.os, "listdir", listed_before)
    checkpoint.save({"a": 4}, tmp_path / "step-4")
    monkeypatch.setattr(retention, "_known", known_before)
    assert checkpoint.retain(tmp_path, 1) == [tmp_path / "step-3"]
    assert listed(tmp_path) == ["step-4"]


def test_damage_is_told_before_all_else_is_read(tmp_path, monkeypatch):
    checkpoint.save({str(i): torch.ones(8) for i in range(500)}, tmp_path / "a")
    (data,) = (tmp_path / "a").glob("*.data")
    data.write_bytes(b"x" + data.read_bytes()[1:])
    compared, check, is_told = [], verifying.check_sums, threading.Event()

    def check_late(folder, name, *arguments):
        assert name == "0" or is_told.wait(SECONDS_MAX)
        compared.append(check(folder, name, *arguments))

    class Waiting(deque):
        def clear(self):
            super().clear()
            is_told.set()

    monkeypatch.setattr(verifying, "check_sums", check_late)
    monkeypatch.setattr(threads, "deque", Waiting)
    with pytest.raises(checkpoint.CheckpointError, match="checksum of '0' is wrong"):
        checkpoint.verify(tmp_path / "a")
    assert len(compared) <= verifying.READERS


def test_a_note_that_cannot_be_written_hides_no_result(tmp_path):
    checkpoint.save({"a": torch.ones(8)}, tmp_path / "a")
    (tmp_path / "a" / "verified.json").mkdir()
    with pytest.raises(OSError, match="every checksum is right, but that could not be noted for retain: .*directory"):
        checkpoint.verify(tmp_path / "a")


def test_a_save_that_cannot_be_published_leaves_nothing(tmp_path):
    for durable in (True, False):
        (tmp_path / "a" / "checkpoint.json").mkdir(parents=True, exist_ok=True)
        with pytest.raises(OSError, match="directory"):
            checkpoint.save({"a": torch.ones(8)}, tmp_path / "a", durable=durable)
        assert os.listdir(tmp_path / "a") == ["checkpoint.json"]


def test_dates_of_numpy_are_refused_and_do_not_become_numbers(tmp_path):
    for value in (numpy.datetime64("2026-01-01", "ns"), numpy.timedelta64(5, "ns")):
        with pytest.raises(checkpoint.CheckpointError, match="'when': the format has no dtype"):
            checkpoint.save({"when": value}, tmp_path / "a")


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="this torch has no float4")
def test_pairs_without_dimensions_are_refused_in_a_sentence(tmp_path):
    with pytest.raises(checkpoint.CheckpointError, match=r"'a' of float4_e2m1fn_x2 has no dimensions.*shape \[1\]"):
        checkpoint.save({"a": torch.zeros((), dtype=torch.uint8).view(torch.float4_e2m1fn_x2)}, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_tensor_that_changes_while_it_is_saved_is_told_and_nothing_is_left(tmp_path, monkeypatch):
    tensor, write = torch.zeros(1000), penstock.File.write

    def change(file, buffer, *arguments):
        report = write(file, buffer, *arguments)
        tensor[7] = 1
        return report

    monkeypatch.setattr(penstock.files.NewFile, "write", change, raising=False)
    with pytest.raises(checkpoint.CheckpointError, match="'a.b' changed while it was saved"):
        checkpoint.save({"a": {"b": tensor}}, tmp_path / "x")
    assert not list((tmp_path / "x").iterdir())


def test_a_save_tells_its_bytes_their_paths_and_how_far_it_is(tmp_path):
    seen = []
    done = checkpoint.save({"a": torch.ones(1000)}, tmp_path / "x",
                           on_progress=lambda each: seen.append(each.bytes_done))
    assert done.bytes_done == done.bytes_total == seen[-1] == 4000
    assert sum(done.bytes_by_path.values()) == 4000 and done.seconds > 0


@pytest.mark.parametrize("durable", [True, False])
def test_a_save_by_direct_io_is_what_any_other_is(tmp_path, durable):
    tensors = {f"{i}": torch.randn(10_000 * i + i) for i in range(4)}
    checkpoint.save(tensors, tmp_path / "x", direct=True, durable=durable)
    loaded = checkpoint.load(tmp_path / "x")
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())


def test_a_checkpoint_that_came_meanwhile_is_not_removed_for_an_older_one(tmp_path, monkeypatch):
    for name in ("s1", "s2"):
        checkpoint.save({"n": name}, tmp_path / name)
    known = retention._known

    def and_then_another_save(root, *more):
        found = known(root, *more)
        checkpoint.save({"n": "new"}, tmp_path / "s1")
        return found

    monkeypatch.setattr(retention, "_known", and_then_another_save)
    assert checkpoint.retain(tmp_path, 1) == []
    assert checkpoint.load(tmp_path / "s1") == {"n": "new"}


def test_a_save_whose_files_were_taken_away_does_not_become_the_checkpoint(tmp_path, monkeypatch):
    checkpoint.save({"a": torch.ones(3)}, tmp_path / "a")
    give_name = publishing.give_name

    def after_removing(folder, metadata, **settings):
        (folder / next(iter(metadata.files))).unlink()
        give_name(folder, metadata, **settings)

    monkeypatch.setattr(publishing, "give_name", after_removing)
    with pytest.raises(checkpoint.CheckpointError, match="removed or cut before the save ended"):
        checkpoint.save({"a": torch.zeros(3)}, tmp_path / "a")
    assert checkpoint.load(tmp_path / "a")["a"].tolist() == [1.0] * 3
    assert len(list((tmp_path / "a").glob("*.data"))) == 1


def test_a_tree_that_makes_no_sense_is_refused(tmp_path):
    for tree in ({"$tensor": []}, {"$items": [1]}, {"$items": [[1, 2, 3]]}, {"$items": [[[1], 2]]}, {"$bytes": "abc"},
                 {"$items": [[{"$tuple": [-1, -2]}, 1]]}, {"$items": [[1 << 61, 1]]}):
        path = tmp_path / layout.NAME
        path.write_bytes(layout.encode(layout.Layout("1", tree=tree)))
        with pytest.raises(checkpoint.CheckpointError, match="checkpoint.json: its state makes no sense"):
            checkpoint.load(tmp_path)


def test_objects_without_bytes_are_objects(tmp_path):
    checkpoint.save({"raw": b"", "a": numpy.zeros((0, 3))}, tmp_path / "a")
    assert checkpoint.load(tmp_path / "a")["raw"] == b""
    assert bytes(memory.bytes_of(bytearray())) == b""


def test_deep_notes_of_a_verification_are_none(tmp_path):
    checkpoint.save({"a": torch.ones(3)}, tmp_path / "a")
    (tmp_path / "a" / "verified.json").write_text("[" * 999)
    assert checkpoint.retain(tmp_path, 1) == []


@dataclasses.dataclass
class Settings:
    rate: float = 0.5


class Stage(enum.Enum):
    FIRST = 1


@pytest.mark.parametrize("value, form", [
    (argparse.Namespace(lr=1), r"vars\(args\)"), ({1, 2}, r"list\(args\), and make it a set"),
    (Settings(), r"dataclasses.asdict\(args\)"),
    (Path("x"), r"str\(args\)"), (torch.float16, r"str\(args\)"), (torch.device("cpu"), r"str\(args\)"),
    (Stage.FIRST, "args.value"), (1 + 2j, "args.real, args.imag"), (torch.nn.Linear(1, 1), r"args.state_dict\(\)"),
    (datetime.date(2026, 1, 1), r"args.isoformat\(\)"), (print, "plain data: dicts"), (object(), "plain data: dicts"),
])
def test_what_is_not_saved_is_told_with_the_form_that_is(tmp_path, value, form):
    with pytest.raises(checkpoint.CheckpointError, match=f"^model.args is of type .* is not saved: pass .*{form}"):
        checkpoint.save({"model": {"args": value}}, tmp_path / "c")


def test_without_torch_a_state_comes_back_and_tensors_say_what_to_ask_for(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # Importing it now fails as if it was not there.
    checkpoint.save({"step": 7}, tmp_path / "plain")
    assert checkpoint.load(tmp_path / "plain") == {"step": 7}
    checkpoint.save({"steps": numpy.arange(3)}, tmp_path / "arrays")
    with pytest.raises(weights.WeightsError, match='framework="np"'):
        checkpoint.load(tmp_path / "arrays")
    assert checkpoint.load(tmp_path / "arrays", framework="np")["steps"].tolist() == [0, 1, 2]
