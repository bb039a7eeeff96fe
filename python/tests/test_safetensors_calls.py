# SPDX-License-Identifier: Apache-2.0

"""penstock.safetensors beside safetensors: bytes, prefetching, and when neighbours are read together. safetensors' own
tests are run by scripts/test_safetensors."""

import contextlib
import io
import os
import signal
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
stock = pytest.importorskip("safetensors", reason="safetensors is not installed")

import safetensors.numpy
import safetensors.torch

import penstock.safetensors.numpy
import penstock.safetensors.torch
from penstock import safetensors as ours
from penstock import weights
from tensors import raw

TENSORS = {"w": torch.arange(12.0).view(3, 4), "b": torch.arange(5), "s": torch.tensor(7.5), "e": torch.empty(0, 5),
           "h": torch.ones(6, 2, dtype=torch.bfloat16), "f": torch.zeros(8, dtype=torch.float8_e4m3fn)}


@pytest.fixture
def file(tmp_path):
    stock.torch.save_file(TENSORS, tmp_path / "file", {"one": "1", "two": "2"})
    return tmp_path / "file"


@pytest.fixture
def runs_of_one(monkeypatch):
    """So that each tensor is a request of its own."""
    monkeypatch.setattr("penstock.weights.plan.RUN_BYTES", 1)


def test_files_are_the_same_to_the_byte(file, tmp_path):
    ours.torch.save_file(TENSORS, tmp_path / "other", {"one": "1"})
    stock.torch.save_file(TENSORS, tmp_path / "file", {"one": "1"})
    assert (tmp_path / "other").read_bytes() == file.read_bytes()
    assert ours.torch.save(TENSORS) == stock.torch.save(TENSORS)
    arrays = {"x": np.arange(6, dtype=np.float32), "y": np.ones((2, 2), bool)}
    ours.numpy.save_file(arrays, tmp_path / "other", {"one": "1"})
    stock.numpy.save_file(arrays, tmp_path / "file", {"one": "1"})
    assert (tmp_path / "other").read_bytes() == file.read_bytes()
    assert ours.numpy.save(arrays) == stock.numpy.save(arrays)


@pytest.mark.parametrize("metadata", [None, {}, {"a": "b"}])
def test_empty_metadata_are_told_from_none(tmp_path, metadata):
    arrays = {"x": np.arange(6, dtype=np.float32)}
    ours.numpy.save_file(arrays, tmp_path / "ours", metadata)
    stock.numpy.save_file(arrays, tmp_path / "stock", metadata)
    content = (tmp_path / "stock").read_bytes()
    assert (tmp_path / "ours").read_bytes() == ours.serialize(specs(ours.TensorSpec, arrays), metadata) == content
    for opening in (ours.safe_open, stock.safe_open):
        with opening(tmp_path / "stock", "np") as opened:
            assert opened.metadata() == metadata


@pytest.mark.parametrize("save", [
    lambda path: ours.torch.save_file(TENSORS, path), lambda path: weights.save_file(TENSORS, path),
    lambda path: ours.serialize_file(specs(ours.TensorSpec, {"x": np.arange(6)}), path)])
def test_a_private_file_stays_private_and_a_new_one_is_as_open_makes_it(tmp_path, save):
    before = os.umask(0o027)
    try:
        save(tmp_path / "file")
        assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
        (tmp_path / "file").chmod(0o600)
        save(tmp_path / "file")
        assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def specs(kind, arrays):
    return {name: kind(dtype=array.dtype.name, shape=array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes)
            for name, array in arrays.items()}


def test_bytes_by_their_addresses(tmp_path):
    arrays = {"x": np.arange(6, dtype=np.float32), "none": np.empty((0, 3), np.int64), "one": np.array(3)}
    content = ours.serialize(specs(ours.TensorSpec, arrays), {"a": "b"})
    ours.serialize_file(specs(ours.TensorSpec, arrays), tmp_path / "file", {"a": "b"})
    assert (tmp_path / "file").read_bytes() == content
    assert dict(ours.deserialize(content)) == dict(stock.deserialize(content))
    if hasattr(stock, "TensorSpec"):
        assert stock.serialize(specs(stock.TensorSpec, arrays), {"a": "b"}) == content
    assert ours.TensorSpec(dtype="float4_e2m1fn_x2", shape=[2, 3], data_ptr=0, data_len=6).shape == [2, 6]
    with pytest.raises(stock.SafetensorError, match="no dtype 'no such'"):
        ours.TensorSpec(dtype="no such", shape=[1], data_ptr=0, data_len=0)
    with pytest.raises(stock.SafetensorError, match="does not have 5 bytes"):
        ours.serialize({"x": ours.TensorSpec(dtype="uint8", shape=[4], data_ptr=arrays["x"].ctypes.data, data_len=5)})
    with pytest.raises(TypeError, match="expected a TensorSpec"):
        ours.serialize({"x": {}})


def test_an_open_file_is_read_as_one_by_its_name(file):
    for opened in (open(file), io.BytesIO(file.read_bytes())):
        with opened, ours._safe_open_handle(opened, "pt") as found:
            assert raw(found.get_tensor("w")) == raw(TENSORS["w"]) and found.metadata() == {"one": "1", "two": "2"}


def test_a_header_entry_is_as_in_the_file(file):
    with ours.safe_open(file, "pt") as opened:
        entries = {name: opened.get_tensor_meta(name) for name in opened.offset_keys()}
    assert entries["w"].dtype == "F32" and entries["w"].shape == [3, 4] and entries["e"].shape == [0, 5]
    begins = [entry.data_offsets[0] for entry in entries.values()]
    assert begins[0] == 0 and begins == sorted(begins)


@pytest.mark.parametrize("call", [
    lambda opened: opened.get_tensor("no"), lambda opened: opened.prefetch({"no": None}),
    lambda opened: opened.prefetch({}), lambda opened: opened.prefetch({"w": slice(0, 2, 2)}),
    lambda opened: opened.prefetch({"w": slice(0, 9)}), lambda opened: opened.prefetch({"s": slice(0, 1)}),
    lambda opened: opened.prefetch({"w": 3})])
def test_what_is_refused_is_an_error_of_theirs(file, call):
    with ours.safe_open(file, "pt") as opened, pytest.raises(stock.SafetensorError) as refused:
        call(opened)
    assert isinstance(refused.value, weights.WeightsError) and isinstance(refused.value, ValueError)


def test_arrays_of_numpy_are_cut_as_strictly_as_there(tmp_path):
    stock.numpy.save_file({"x": np.arange(50.0).reshape(10, 5)}, tmp_path / "file")
    for opening in (ours.safe_open, stock.safe_open):
        with opening(tmp_path / "file", "np") as opened:
            part = opened.get_slice("x")
            assert part[2:, -5].tolist() == list(range(10, 50, 5)) and part[[]].shape == (0, 5)
            for index in (np.s_[2:, -6], np.s_[2:, 20], np.s_[:20], np.s_[:, :20], [0, 1]):
                with pytest.raises(stock.SafetensorError):
                    part[index]


@pytest.mark.parametrize("each", [True, False])
def test_a_prefetch_hands_out_each_tensor_once(file, each, request):
    if each:
        request.getfixturevalue("runs_of_one")
    loader = ours.safe_open(file, "pt").prefetch(threads=2)  # It outlives the file.
    assert sorted(loader.names()) == sorted(TENSORS) and len(loader) == len(TENSORS)
    last = loader.names()[-1]
    assert raw(loader.take(last)) == raw(TENSORS[last])
    with pytest.raises(stock.SafetensorError, match="taken before"):
        loader.take(last)
    with pytest.raises(stock.SafetensorError, match="not in the plan"):
        loader.take("no")
    left = dict(loader)
    assert left.keys() == TENSORS.keys() - {last} and all(raw(left[name]) == raw(TENSORS[name]) for name in left)
    assert dict(loader) == {}


def test_a_prefetch_of_rows_reads_them_alone(file, runs_of_one):
    plan = {"w": slice(1, 3), "b": slice(-2, None), "h": slice(2, 2), "f": None}
    with ours.safe_open(file, "pt") as opened, opened.prefetch(plan) as loader:
        assert sorted(loader.names()) == sorted(plan)
        found = dict(loader)
        assert all(raw(found[name]) == raw(TENSORS[name][rows or slice(None)]) for name, rows in plan.items())
        assert found["h"].shape == (0, 2) and loader._plan.bytes_from_storage == 2 * 16 + 2 * 8 + 8


def test_a_prefetch_that_is_closed_lets_go_of_what_is_left(file, runs_of_one):
    with ours.safe_open(file, "pt").prefetch() as loader:
        kept = loader.take(loader.names()[0])
    assert kept.numel() > 0
    with pytest.raises(stock.SafetensorError, match="closed"):
        loader.take(loader.names()[-1])
    loader.close()


def test_a_prefetch_that_failed_tells_why_each_time(file, runs_of_one):
    opened = ours.safe_open(file, "pt")
    loader = opened.prefetch({name: None for name in ("w", "b", "h", "f")})
    os.truncate(file, 400)
    for _ in range(2):
        with pytest.raises(weights.WeightsError, match="was cut"):
            [loader.take(name) for name in loader.names() if name in loader._left]
    with pytest.raises(weights.WeightsError, match="was cut"):
        dict(loader)


class Counting(ours.safe_open):
    def __init__(self, *given):
        super().__init__(*given)
        self.read = []

    def _count(self, progress):
        self.read.append(progress.bytes_done)


@pytest.fixture
def many(tmp_path):
    """(file, tensors): 64 tensors of 4 KiB."""
    tensors = {f"{i:02}": torch.full((1024,), float(i)) for i in range(64)}
    stock.torch.save_file(tensors, tmp_path / "many")
    return tmp_path / "many", tensors


def test_no_more_is_read_together_than_was_asked_for(many):
    with Counting(many[0], "pt") as opened:
        assert all(raw(opened.get_tensor(name)) == raw(many[1][name]) for name in list(many[1])[:6])
        assert raw(opened.get_tensor("00")) == raw(many[1]["00"])  # Once more, alone.
    assert 6 * 4096 < sum(opened.read) <= (2 * 6 + 1) * 4096
    with Counting(many[0], "pt") as opened:
        assert all(raw(opened.get_tensor(name)) == raw(many[1][name]) for name in ("07", "40", "03", "21"))
    assert opened.read == [4096] * 4


def test_tensors_in_their_order_are_read_together(many):
    with Counting(many[0], "pt") as opened:
        assert all(raw(opened.get_tensor(name)) == raw(tensor) for name, tensor in many[1].items())
    assert len(opened.read) < 20 and sum(opened.read) == 64 * 4096


def test_without_memory_for_neighbours_a_tensor_is_read_alone(many, monkeypatch):
    def fail(*_):
        raise MemoryError("nothing is left")

    monkeypatch.setattr(weights.Weights, "plan_of_neighbours", fail)
    with Counting(many[0], "pt") as opened:
        assert all(raw(opened.get_tensor(name)) == raw(tensor) for name, tensor in many[1].items())
    assert opened.read == [4096] * 64


def test_a_forked_child_reads_what_its_parent_opened(many):
    with ours.safe_open(many[0], "pt") as opened:
        assert all(raw(opened.get_tensor(name)) == raw(many[1][name]) for name in list(many[1])[:6])
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                os._exit(all(raw(opened.get_tensor(name)) == raw(many[1][name]) for name in many[1]))
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_neighbours_are_read_on_the_stream_of_who_asks(many, monkeypatch):
    seen = []

    def stream(_):
        asker = threading.get_ident()

        @contextlib.contextmanager
        def entered():
            seen.append((asker, threading.get_ident()))
            yield

        return entered()

    monkeypatch.setattr("penstock.weights.neighbours._current_stream", stream)
    with ours.safe_open(many[0], "pt") as opened:
        opened.get_tensors(), [opened.get_tensor(name) for name in many[1]]
    assert seen and all(asker == threading.get_ident() != reader for asker, reader in seen)


def test_on_a_gpu_copies_are_handed_out_to_the_stream_of_who_takes_them(many, monkeypatch):
    streams, recorded, loaded = [], [], []
    load = weights.Plan.load

    class Stream:
        def synchronize(self):
            streams.append(threading.get_ident())

    def load_and_note(plan):
        loaded.append(load(plan))
        return loaded[-1]

    monkeypatch.setattr("penstock.weights.neighbours._is_cuda", lambda _: True)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: Stream())
    monkeypatch.setattr(torch.cuda, "stream", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, _: recorded.append(tensor.data_ptr()))
    monkeypatch.setattr(weights.Plan, "load", load_and_note)
    with ours.safe_open(many[0], "pt") as opened:
        found = {name: opened.get_tensor(name) for name in many[1]}
    assert all(raw(found[name]) == raw(many[1][name]) for name in found)
    shared = {tensor.data_ptr() for group in loaded for tensor in group.values()}
    assert len(recorded) > 32 and not shared & {tensor.data_ptr() for tensor in found.values()}
    assert len(streams) == len(loaded) and threading.get_ident() not in streams


def test_the_device_of_a_plan_is_the_one_that_was_current_when_it_was_made(file, monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    plan = weights.Weights(file).plan(device="cuda")
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 5)
    assert plan.arrays.dlpack_device() == (2, 3) and plan.device == torch.device("cuda", 3)


def test_a_type_that_a_framework_lacks_hinders_only_its_own_tensors(file):
    with ours.safe_open(file, "np") as opened:
        assert opened.get_tensor("b").tolist() == [0, 1, 2, 3, 4] and opened.get_tensor("w").shape == (3, 4)


def test_threads_share_an_open_file(tmp_path, runs_of_one):
    tensors = {f"{i}": torch.full((16,), i) for i in range(64)}
    stock.torch.save_file(tensors, tmp_path / "file")
    found = {}
    with ours.safe_open(tmp_path / "file", "pt") as opened:
        threads = [threading.Thread(target=lambda part: found.update({name: opened.get_tensor(name) for name in part}),
                                    args=(list(tensors)[i::4],)) for i in range(4)]
        [each.start() for each in threads]
        [each.join() for each in threads]
    assert len(found) == 64 and all(raw(found[name]) == raw(tensors[name]) for name in tensors)


def test_rows_are_read_alone_also_of_a_file_that_is_closed(file):
    with Counting(file, "pt") as opened:
        part = opened.get_slice("w")
    assert raw(part[1:3, ::2]) == raw(TENSORS["w"][1:3, ::2].contiguous()) and opened.read == [32]
    assert part[2].tolist() == [8, 9, 10, 11] and opened.read == [32, 16]


def test_an_open_file_is_served_whatever_becomes_of_its_name(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    opened = ours.safe_open(file.name, "pt")
    monkeypatch.chdir("/")
    part = opened.get_slice("w")
    assert raw(opened.get_tensor("w")) == raw(TENSORS["w"])
    stock.torch.save_file({"w": torch.zeros(3, 4)}, file.with_name("other"))
    file.with_name("other").replace(file)
    assert raw(opened.get_tensor("h")) == raw(TENSORS["h"]) and part[2].tolist() == [8, 9, 10, 11]
    file.unlink()
    loader = opened.prefetch()
    opened.close()
    assert all(raw(tensor) == raw(TENSORS[name]) for name, tensor in loader)
    assert raw(part[...]) == raw(TENSORS["w"])


def test_a_file_that_is_closed_is_not_kept_open(file):
    def is_open():
        links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
        return str(file) in [os.readlink(link) for link in links if os.path.islink(link)]

    with ours.safe_open(file, "pt") as opened:
        assert raw(opened.get_tensor("w")) == raw(TENSORS["w"]) and is_open()
    assert not is_open()


def test_a_file_that_was_cut_is_told(file):
    opened = ours.safe_open(file, "pt")
    assert opened.get_slice("w")[0].tolist() == [0, 1, 2, 3]
    os.truncate(file, 400)
    with pytest.raises(weights.WeightsError, match="was cut"):
        [opened.get_slice(name)[0:2] for name in ("w", "b", "h", "f")]
