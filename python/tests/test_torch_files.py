# SPDX-License-Identifier: Apache-2.0

"""What training programs put into torch.save, beside what torch's own weights-only reader makes of it; objects of
classes that nobody knows; and files that are something else."""

import argparse
import collections
import dataclasses
import enum
import io
import os
import pickle
import struct
import zipfile

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors.torch", reason="safetensors is not installed")

import numpy as np
import safetensors.torch
from torch.optim import lr_scheduler

from penstock import weights
from tensors import raw
from test_checkpoints_hostile import refused, write
from test_checkpoints_read import is_same


def trained():
    module = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.25, momentum=0.9)
    module(torch.rand(4, 3)).sum().backward()
    optimizer.step()
    return module, optimizer


@pytest.mark.parametrize("make", [
    lambda sgd: lr_scheduler.MultiStepLR(sgd, [3, 8]), lambda sgd: lr_scheduler.StepLR(sgd, 3),
    lambda sgd: lr_scheduler.SequentialLR(sgd, [lr_scheduler.StepLR(sgd, 3), lr_scheduler.MultiStepLR(sgd, [5])], [2]),
    lambda sgd: lr_scheduler.CosineAnnealingLR(sgd, 10), lambda sgd: lr_scheduler.ReduceLROnPlateau(sgd)])
@pytest.mark.filterwarnings("ignore")
def test_the_state_of_a_scheduler_is_plain_data(tmp_path, make):
    module, optimizer = trained()
    torch.save({"model": module.state_dict(), "optimizer": optimizer.state_dict(),
                "scheduler": make(optimizer).state_dict()}, tmp_path / "c.pt")
    assert is_same(weights.load_torch(tmp_path / "c.pt"), torch.load(tmp_path / "c.pt", weights_only=True))
    found = weights.Weights(tmp_path / "c.pt")
    assert raw(found.plan("model.weight").load()["model.weight"]) == raw(module.weight) and "scheduler" in found.objects
    assert "scheduler" in weights.convert(tmp_path / "c.pt", tmp_path / "out").left_out


PLAIN = {
    "counter": collections.Counter({"seen": 3, (1, "x"): -2.5}), "empty counter": collections.Counter(),
    "dtypes": [torch.complex32, torch.qint8, torch.quint4x2, torch.bits8, torch.int4, torch.uint7, torch.float8_e5m2],
    "layout": [torch.strided, torch.sparse_coo, torch.sparse_csr], "half a letter": "a\udc80", "device": torch.device(
        "meta"), "random": torch.get_rng_state(), "complex": 2 + 3j, "bytearray": bytearray(b"ab"), "huge": -(1 << 90),
}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("name", PLAIN)
def test_what_torch_takes_for_plain_data_is_taken(tmp_path, name, protocol):
    tree = {"it": PLAIN[name], "w": torch.ones(2)}
    torch.save(tree, tmp_path / "c.pt", pickle_protocol=protocol)
    loaded = weights.load_torch(tmp_path / "c.pt")
    assert is_same(loaded, torch.load(tmp_path / "c.pt", weights_only=protocol == 2))
    assert "w" in weights.Weights(tmp_path / "c.pt").tensors


def test_tensors_without_bytes_come_as_they_were(tmp_path):
    tree = {"m": torch.empty(3, 4, device="meta", dtype=torch.int8).t(), "w": torch.ones(2)}
    tree["again"] = tree["m"]
    torch.save(tree, tmp_path / "c.pt")
    loaded = weights.load_torch(tmp_path / "c.pt")
    assert loaded["m"].is_meta and loaded["m"].stride() == (1, 4) and loaded["m"].dtype == torch.int8
    assert loaded["again"] is loaded["m"] and list(weights.Weights(tmp_path / "c.pt").tensors) == ["w"]


def test_the_names_of_torchs_own_list_are_known_or_refused():
    """What another torch adds to the list of its weights-only reader is seen here."""
    from torch._weights_only_unpickler import _get_allowed_globals

    from penstock.weights.torch_views import TABLE

    refused_kinds = ("_rebuild_qtensor", "_rebuild_sparse_tensor", "_rebuild_nested_tensor", "_rebuild_device_tensor")
    missing = [name for name in _get_allowed_globals() if name not in TABLE and not any(
        kind in name for kind in refused_kinds) and not name.endswith(("Tensor", "Storage"))]
    assert missing == []


class Stage(enum.Enum):
    OPTIMIZER = 1


@dataclasses.dataclass
class Settings:
    rate: float
    shadow: torch.Tensor


class Averages(dict):
    pass


class Node:
    pass


class Evil:
    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return os.system, (f"touch {self._path}",)


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_what_nobody_knows_beside_tensors_is_kept_by_name_and_never_made(tmp_path, protocol):
    model, path = torch.nn.Linear(3, 2).state_dict(), tmp_path / "c.pt"
    torch.save({"model": model, "args": argparse.Namespace(lr=0.5), "loss": np.float64(1.5), "stage": Stage.OPTIMIZER,
                "evil": [Evil(tmp_path / "touched")], "by_stage": {Stage.OPTIMIZER: 1}, "file": io.StringIO,
                "default": collections.defaultdict(list, {"a": [1]})}, path, pickle_protocol=protocol)
    found = weights.Weights(path)
    assert list(found.tensors) == ["model.weight", "model.bias"]
    assert all(raw(tensor) == raw(model[name[6:]]) for name, tensor in found.plan().load().items())
    assert found.objects["args"].name == "argparse.Namespace" and "argparse.Namespace" in repr(found.objects["args"])
    assert found.objects["stage"].name.endswith("Stage") and set(found.objects) == {
        "args", "loss", "stage", "evil", "by_stage", "file", "default"}
    done = weights.convert(path, tmp_path / "out.safetensors")
    assert done.tensors == 2 and set(done.left_out) == set(found.objects)
    assert is_same(safetensors.torch.load_file(tmp_path / "out.safetensors"),
                   {f"model.{name}": tensor for name, tensor in sorted(model.items())})
    with pytest.raises(weights.WeightsError, match="it needs argparse.Namespace, and only tensors .*torch.load"):
        weights.load_torch(path)
    assert not (tmp_path / "touched").exists()


def test_tensors_within_objects_that_nobody_knows_are_reached(tmp_path):
    averages, node = Averages(shadow=torch.full((2,), 3.0)), Node()
    averages.step, node.me, node.weight = torch.tensor(5), node, torch.full((1,), 9.0)
    torch.save({"settings": Settings(0.5, torch.ones(2)), "averages": averages, "node": node,
                "module": torch.nn.Linear(2, 1), "default": collections.defaultdict(list, {"a": [torch.zeros(1)]})},
               tmp_path / "c.pt")
    loaded = weights.Weights(tmp_path / "c.pt").plan().load()
    assert {name: tensor.tolist() for name, tensor in loaded.items() if not name.startswith("module.")} == {
        "settings.shadow": [1.0, 1.0], "averages.shadow": [3.0, 3.0], "averages.step": 5, "node.weight": [9.0],
        "default.a.0": [0.0]}
    assert [name for name in loaded if name.startswith("module.")] == ["module._parameters.weight",
                                                                       "module._parameters.bias"]


def test_objects_without_any_tensor_are_no_model(tmp_path):
    torch.save({"args": argparse.Namespace(lr=0.5)}, tmp_path / "training_args.bin")
    for load in (weights.Weights, lambda path: weights.convert(path, tmp_path / "out")):
        with pytest.raises(weights.WeightsError, match="training_args.bin: it needs argparse.Namespace"):
            load(tmp_path / "training_args.bin")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("odd", [lambda: torch.eye(2).to_sparse(), lambda: torch.quantize_per_tensor(
    torch.ones(2), 0.1, 0, torch.quint8)])
@pytest.mark.filterwarnings("ignore")
def test_tensors_of_kinds_that_are_not_read_are_never_left_out_in_silence(tmp_path, odd):
    torch.save({"w": torch.ones(2), "odd": odd()}, tmp_path / "c.pt")
    refused(tmp_path / "c.pt", "it needs torch._utils._rebuild_")


@pytest.mark.filterwarnings("ignore")
def test_distributed_tensors_are_read_where_a_file_has_all_of_them(tmp_path):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    torch.distributed.init_process_group("fake", store=torch.distributed.HashStore(), rank=0, world_size=2)
    try:
        mesh, whole = init_device_mesh("cpu", (2,)), torch.arange(8.0).view(4, 2)
        torch.save({"whole": DTensor.from_local(whole, mesh, [Replicate()]), "plain": torch.ones(1),
                    "parameter": torch.nn.Parameter(DTensor.from_local(whole, mesh, [Replicate()])),
                    "piece": DTensor.from_local(whole[:2], mesh, [Shard(0)]),
                    "summand": DTensor.from_local(whole, mesh, [Partial()])}, tmp_path / "c.pt")
    finally:
        torch.distributed.destroy_process_group()
    loaded = weights.Weights(tmp_path / "c.pt").plan().load()
    assert set(loaded) == {"whole", "plain", "parameter", "piece._local_tensor", "summand._local_tensor"}
    assert torch.equal(loaded["whole"], whole) and torch.equal(loaded["piece._local_tensor"], whole[:2])
    with pytest.raises(weights.WeightsError, match="it needs torch.distributed.tensor.DTensor"):
        weights.load_torch(tmp_path / "c.pt")


def test_the_arguments_of_torch_load_are_taken_or_told(tmp_path):
    tree, path = {"w": torch.arange(3.0), "n": 1}, tmp_path / "c.pt"
    torch.save(tree, path)
    for loaded in (weights.load_torch(path, map_location="cpu"), weights.load_torch(str(path), weights_only=True),
                   weights.load_torch(io.BytesIO(path.read_bytes())), weights.load_torch(path, torch.device("cpu"))):
        assert is_same(loaded, tree)
    with open(path, "rb") as opened:
        assert is_same(weights.load_torch(opened, map_location=torch.device("cpu")), tree)
    with pytest.raises(weights.WeightsError, match="weights_only is False: nothing that a file names is executed"):
        weights.load_torch(path, weights_only=False)
    with pytest.raises(weights.WeightsError, match="map_location is a function, which would get tensors before"):
        weights.load_torch(path, map_location=lambda storage, place: storage)
    with pytest.raises(weights.WeightsError, match="^the BytesIO: this is no file of torch.save"):
        weights.load_torch(io.BytesIO(b"nothing of the kind"))
    for odd in (None, 7, b"bytes"):
        with pytest.raises(weights.WeightsError, match="is no file: expected its name, or a file object"):
            weights.load_torch(odd)


@pytest.fixture
def of_two_gpus(tmp_path, monkeypatch):
    """A file whose tensors were on two GPUs, as it says, and one in the CPU's memory; by the names of the places."""
    places = {"cuda:0": torch.rand(7), "cuda:1": torch.rand(3, 2), "cpu": torch.rand(4)}
    where = {tensor.data_ptr(): place for place, tensor in places.items()}
    monkeypatch.setattr(torch.serialization, "location_tag", lambda storage: where[storage.data_ptr()])
    torch.save({**places, "again": places["cuda:1"]}, tmp_path / "two.pt")
    return tmp_path / "two.pt"


def test_a_dict_says_where_the_tensors_of_each_device_go(of_two_gpus):
    by = {"cuda:0": "cpu", "cuda:1": torch.device("cpu")}
    loaded = weights.load_torch(of_two_gpus, map_location=by)
    assert is_same(loaded, torch.load(of_two_gpus, map_location={"cuda:0": "cpu", "cuda:1": "cpu"}, weights_only=True))
    assert loaded["again"].data_ptr() == loaded["cuda:1"].data_ptr()
    assert is_same(weights.load_torch(of_two_gpus), loaded)  # All to the CPU, as nothing is said.


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_what_a_dict_leaves_out_stays_where_it_was_and_is_named_where_that_is_no_place(of_two_gpus):
    for by, place in (({"cuda:0": "cpu"}, "cuda:1"), ({"cuda:0": "cpu", "cuda:1": "cpu", "cpu": "cuda:5"}, "cuda:5")):
        with pytest.raises(Exception, match=place) as refused_by:
            weights.load_torch(of_two_gpus, map_location=by)
        assert "two.pt" in str(refused_by.value)


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"ab" * 32 + b"\nsize 4976698672\n"


@pytest.mark.parametrize("content, sentence", [
    (POINTER, "a pointer of git-lfs to 4976698672 bytes.*git lfs pull"),
    (b"<!DOCTYPE html><html><head><title>Error 404</title></head></html>", "a page of HTML.*download the file anew"),
    (b"\n  <HTML><body>sign in</body></HTML>", "a page of HTML"),
    (b"\xef\xbb\xbf<!doctype html>" * 20, "a page of HTML"),
    (b'<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>', "a page of XML"),
    (b'{"error": "Repository not found"}', "this is text, JSON perhaps"),
    (b"GGUF\x03\0\0\0" + bytes(100), "a GGUF file"), (b"\x89HDF\r\n\x1a\n" + bytes(100), "an HDF5 file"),
    (b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + bytes(100), "compressed by gzip"),
    (b"\x93NUMPY\x01\0" + bytes(100), "numpy.load"),
])
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_what_is_no_file_of_weights_is_called_what_it_is(tmp_path, content, sentence, name):
    (tmp_path / name).write_bytes(content)
    for load in (weights.Weights, weights.load_file, weights.load_torch, lambda path: weights.Weights(path.parent)):
        with pytest.raises(weights.WeightsError, match=f"{name}: this is .*{sentence}|{name}: .*{sentence}"):
            load(tmp_path / name)


@pytest.mark.parametrize("size", [0x7b, 0x5b, 0x20_46_55, 0x088b1f])
def test_a_header_whose_size_looks_like_something_else_is_read(tmp_path, size):
    text = b'{"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}'
    (tmp_path / "model").write_bytes(struct.pack("<Q", size) + text.ljust(size) + b"ab")
    assert weights.load_file(tmp_path / "model")["w"].tolist() == [97, 98]


@pytest.mark.filterwarnings("ignore")
def test_programs_are_called_programs_although_parts_of_them_are_compressed(tmp_path):
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()).eval()
    torch.jit.save(torch.jit.script(module), tmp_path / "scripted.pt")
    torch.jit.save(torch.jit.trace(module, torch.rand(1, 3)), tmp_path / "traced.pt")
    for name in ("scripted.pt", "traced.pt"):
        with zipfile.ZipFile(tmp_path / name) as archive:
            assert any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist())
        refused(tmp_path / name, "this is a program of TorchScript: load it with torch.jit.load and save its state")
    torch.export.save(torch.export.export(module, (torch.rand(1, 3),)), tmp_path / "exported.pt2")
    refused(tmp_path / "exported.pt2", "a program of torch.export")
    np.savez(tmp_path / "arrays.npz", a=np.ones(3))
    refused(tmp_path / "arrays.npz", "arrays of numpy")


def test_entries_that_nobody_needs_may_be_compressed(tmp_path):
    torch.save({"w": torch.ones(3)}, tmp_path / "c.pt")
    with zipfile.ZipFile(tmp_path / "c.pt") as old, zipfile.ZipFile(tmp_path / "more.pt", "w") as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry), zipfile.ZIP_STORED)
        new.writestr("c/extra/readme.txt", b"notes " * 100, zipfile.ZIP_DEFLATED)
    assert weights.load_file(tmp_path / "more.pt")["w"].tolist() == [1.0] * 3


@pytest.mark.parametrize("has_sums", [True, False])
def test_a_description_that_was_changed_is_told_where_it_has_a_checksum(tmp_path, has_sums):
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(has_sums)
    try:
        torch.save({"step": 12345678, "w": torch.ones(3)}, tmp_path / "c.pt")
    finally:
        torch.serialization.set_crc32_options(before)
    assert weights.load_torch(tmp_path / "c.pt")["step"] == 12345678
    content = bytearray((tmp_path / "c.pt").read_bytes())
    content[content.find((12345678).to_bytes(4, "little"))] ^= 1
    (tmp_path / "c.pt").write_bytes(content)
    if has_sums:
        refused(tmp_path / "c.pt", "data.pkl' are others than its checksum was made of")
    else:
        assert weights.load_torch(tmp_path / "c.pt")["step"] == 12345679


MANY = 30_000


@pytest.mark.parametrize("body", [
    b"N" + b"\x94" * MANY + b".", b"N" + b"q\x00" * MANY + b".", b"N" + b"r\x00\x00\x00\x00" * MANY + b".",
    b"(" * MANY + b"t.", b"(" + b"\x8f" * MANY + b"t.", b"(" + b"]\x94" * 6 * MANY + b"t.",
    b"(" + b"}" * 4 * MANY + b"t.", b"(" + b")\x85" * 6 * MANY + b"t.",
    b"ccollections\nOrderedDict\nq\x01(" + b"h\x01)R" * 2 * MANY + b"t.",
    b"carg\nparse\nq\x01(" + b"h\x01)\x81" * 3 * MANY + b"t.",
])
def test_pickles_that_would_take_many_times_their_size_are_refused(tmp_path, body, monkeypatch):
    """Within some room, and sixteen bytes for each of theirs: seen at the peak, by the allocator of Python."""
    import tracemalloc

    from penstock.weights import pickles

    monkeypatch.setattr(pickles, "ROOM", 1 << 16)
    path = write(tmp_path / "c.pt", b"\x80\x04" + body)
    tracemalloc.start()
    try:
        refused(path, "is not accepted|over and over")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (1 << 20) + 32 * len(body)


def test_many_small_dicts_and_tuples_are_no_bomb(tmp_path):
    tree = {"rows": [{"id": i, "at": (i, 0.5), "tags": []} for i in range(20_000)], "w": torch.ones(1)}
    for protocol in (2, 4):
        torch.save(tree, tmp_path / "c.pt", pickle_protocol=protocol)
        assert weights.load_torch(tmp_path / "c.pt")["rows"] == tree["rows"]


def test_pickles_remember_by_any_numbers(tmp_path):
    """As of other picklers: out of order, with holes, and one number for two things."""
    far, letters = b"\x00\x00\x01\x00", [b"X\x01\x00\x00\x00" + letter for letter in (b"a", b"b", b"c")]
    body = b"\x80\x02(" + letters[0] + b"r" + far + letters[1] + b"q\x00" + letters[2] + b"q\x00h\x00j" + far + b"t."
    assert weights.load_torch(write(tmp_path / "c.pt", body)) == pickle.loads(body) == ("a", "b", "c", "c", "a")
