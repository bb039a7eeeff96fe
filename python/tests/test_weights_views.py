# SPDX-License-Identifier: Apache-2.0

"""Tensors of plain files, which are handed out by DLPack: their types and places, their storages, and their memory."""

import gc
import threading
import weakref

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")

from safetensors.torch import load_file, save_file

from penstock import _native, weights
from penstock.weights import headers
from tensors import raw

DTYPES = [getattr(torch, name) for name in weights.tensors.DTYPES.values() if hasattr(torch, name)]


@pytest.fixture
def no_description(monkeypatch):
    """For a plan of all tensors none is described."""
    def refuse(*_):
        raise AssertionError("a tensor was described")

    monkeypatch.setattr(headers, "_tensor_at", refuse)


def bytes_of(dtype, *shape):
    count = int(np.prod(shape)) * dtype.itemsize
    return torch.arange(count, dtype=torch.int64).remainder(2).to(torch.uint8).view(dtype).view(shape)


@pytest.mark.parametrize("dtype", [each for each in DTYPES if "float4" not in str(each)], ids=str)
def test_each_type_comes_as_by_safetensors(dtype, tmp_path, no_description):
    stored = {"a": bytes_of(dtype, 3, 5), "b": bytes_of(dtype, 1), "none": torch.empty(0, 7, dtype=dtype),
              "whole": bytes_of(dtype, 1).view(())}
    save_file(stored, tmp_path / "file")
    found = weights.load_file(tmp_path / "file")
    assert found.keys() == stored.keys()
    for name, tensor in load_file(tmp_path / "file").items():
        assert found[name].dtype == dtype and found[name].shape == tensor.shape and raw(found[name]) == raw(tensor)


def test_tensors_that_are_not_aligned_are_copied(tmp_path, no_description):
    header = (b'{"byte":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
              b'"x":{"dtype":"F32","shape":[2,1],"data_offsets":[1,9]}}')
    header += b" " * (-len(header) % 8)  # So that the data is aligned, and "x" is not.
    data = np.array([1.5, -2], np.float32)
    (tmp_path / "file").write_bytes(len(header).to_bytes(8, "little") + header + b"\7" + data.tobytes())
    found = weights.load_file(tmp_path / "file")
    assert found["x"].tolist() == [[1.5], [-2]] and found["x"].data_ptr() % 4 == 0 and found["byte"].item() == 7


def test_a_storage_has_its_tensor_alone(tmp_path):
    save_file({name: torch.rand(3, 4) for name in "abc"}, tmp_path / "file")
    found = weights.load_file(tmp_path / "file")
    assert all(tensor.untyped_storage().nbytes() == tensor.nbytes for tensor in found.values())
    found["a"].fill_(1)
    save_file(found, tmp_path / "again")  # Which refuses tensors that share memory.
    assert raw(load_file(tmp_path / "again")["b"]) == raw(found["b"])


def test_a_choice_of_names_is_read_in_its_order_in_the_file(tmp_path, no_description):
    save_file({name: torch.full((4096,), float(i)) for i, name in enumerate("abcdef")}, tmp_path / "file")
    plan = weights.Weights(tmp_path / "file").plan(["e", "a", "[cd]"])
    assert [(name, tensor[0].item()) for name, tensor in plan] == [("a", 0), ("c", 2), ("d", 3), ("e", 4)]
    assert plan.names == ["a", "c", "d", "e"] and len(plan.runs) == 2


class Owner:
    pass


def test_memory_goes_with_the_last_tensor_in_whichever_thread(tmp_path):
    save_file({name: torch.rand(8) for name in "abc"}, tmp_path / "file")
    content = np.fromfile(tmp_path / "file", np.uint8)
    with open(tmp_path / "file") as file:
        pieces = _native.Pieces(_native.Header(file.fileno()), None, 1 << 20)
    begin = pieces.runs()[0][0]
    owner = Owner()
    gone = weakref.ref(owner)
    capsules, others = pieces.capsules(0, content.ctypes.data + begin, (1, 0), owner)
    tensors = [torch.utils.dlpack.from_dlpack(capsules.pop()) for _ in range(2)]  # One stays a capsule.
    del owner
    assert others == [] and gone() is not None
    capsules.clear()
    tensors.pop()
    assert gone() is not None
    thread = threading.Thread(target=tensors.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert gone() is None


def test_rows_that_a_tensor_does_not_have_are_refused(tmp_path):
    save_file({"a": torch.rand(4, 2), "s": torch.tensor(1.0)}, tmp_path / "file")
    with open(tmp_path / "file") as file:
        header = _native.Header(file.fileno())
    place = header.find("a")
    assert _native.Pieces(header, [(place, 1, 3)], 1 << 20).runs()[0][1] - header.described(place)[3] == 3 * 8
    for pick in ((place, 3, 5), (place, -1, 2), (place, 3, 2), (header.find("s"), 0, 1), (7, 0, -1)):
        with pytest.raises(ValueError, match="no such"):
            _native.Pieces(header, [pick], 1 << 20)
