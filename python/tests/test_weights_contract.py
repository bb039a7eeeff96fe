# SPDX-License-Identifier: Apache-2.0

"""The calls of safetensors, beside safetensors itself: what it takes, what it refuses, and by which exception."""

import inspect
import json
import os
import struct

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
rival = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")

import numpy as np
import safetensors
import torch.distributed.checkpoint

from penstock import weights
from penstock.weights import numpy as numpy_weights
from tensors import random_tensor, raw


def write(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def equal(left, right):
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype and left[name].shape == right[name].shape
        and raw(left[name]) == raw(right[name]) for name in right)


@pytest.fixture
def model(tmp_path):
    tensors = {"a": random_tensor(torch.bfloat16, 3, 4), "b": torch.tensor(7.5), "none": torch.empty(0, 5)}
    rival.save_file(tensors, tmp_path / "model", {"foo": "bar"})
    return tmp_path / "model", tensors


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_a_backend_is_taken_and_gives_the_same(model, backend):
    path, tensors = model
    with weights.safe_open(path, framework="pt", device="cpu", backend=backend) as opened:
        assert opened.metadata() == {"foo": "bar"} and equal(opened.get_tensors(), tensors)
    with weights.safe_open(path, framework="np" if backend == "pread" else "numpy", backend=backend) as opened:
        assert opened.get_tensor("none").shape == (0, 5)
    assert equal(weights.load_file(path, "cpu", backend=backend), rival.load_file(path, "cpu", backend=backend))
    module = torch.nn.ParameterDict({"a": torch.zeros(3, 4), "b": torch.zeros(()), "none": torch.zeros(0, 5)})
    assert weights.load_model(module, path, True, "cpu", backend=backend) == ([], [])


def test_nothing_is_read_of_a_file_that_is_closed_but_by_slices(model):
    path, tensors = model
    for opening in (safetensors.safe_open, weights.safe_open):
        with opening(path, "pt") as opened:
            part = opened.get_slice("a")
        for call in (opened.keys, opened.metadata, opened.get_tensors, lambda: opened.get_tensor("a"),
                     lambda: opened.get_slice("a")):
            with pytest.raises((weights.WeightsError, safetensors.SafetensorError), match="closed"):
                call()
        assert raw(part[1:2]) == raw(tensors["a"][1:2])


def test_tensors_without_bytes_are_a_runtime_error_as_there(tmp_path):
    for save in (rival.save_file, weights.save_file):
        with pytest.raises(RuntimeError, match="meta"):
            save({"a": torch.zeros(2, device="meta")}, tmp_path / "file")


def test_numpy_takes_a_backend(tmp_path):
    numpy_weights.save_file({"a": np.arange(3)}, tmp_path / "file")
    assert list(numpy_weights.load_file(tmp_path / "file", backend="pread")["a"]) == [0, 1, 2]
    with pytest.raises(weights.WeightsError, match="expected 'mmap' or 'pread'"):
        numpy_weights.load_file(tmp_path / "file", backend="tape")


def test_a_backend_that_there_is_not_is_refused(model):
    for load in (weights.safe_open, weights.load_file, lambda path, **more: weights.load_model(
            torch.nn.Linear(1, 1), path, **more)):
        with pytest.raises(weights.WeightsError, match="backend 'no such': expected 'mmap' or 'pread'"):
            load(model[0], backend="no such")


@pytest.mark.parametrize("ours, theirs", [
    (weights.load_file, rival.load_file), (weights.load_model, rival.load_model),
    (weights.save_file, rival.save_file), (weights.save_model, rival.save_model)])
def test_arguments_have_their_names_and_places(ours, theirs):
    taken = inspect.signature(ours).parameters
    for place, (name, wanted) in enumerate(inspect.signature(theirs).parameters.items()):
        found = list(taken.values())[place] if place < 2 else taken[name]
        assert found.kind is wanted.kind, name


def test_tensors_that_share_memory_are_refused_as_there(tmp_path):
    base, path = torch.arange(12.0), tmp_path / "model"
    tied = [{"x": base, "y": base}, {"x": base, "y": base[4:]}, {"x": base[:8], "y": base[4:]},
            {"x": base, "y": base.view(3, 4), "z": torch.ones(1)}]
    apart = [{"x": base[:6], "y": base[6:]}, {"x": base, "y": base.clone()}, {"x": base, "y": base[:0]},
             {"x": torch.empty(0), "y": torch.empty(0)}]
    for tensors in tied:
        with pytest.raises(RuntimeError, match="'x', 'y' share memory: .*save_model") as refused:
            weights.save_file(tensors, path)
        assert isinstance(refused.value, weights.WeightsError) and not path.exists()
        with pytest.raises(RuntimeError):
            rival.save_file(tensors, path)
    for tensors in apart:
        weights.save_file(tensors, path)
        assert equal(rival.load_file(path), tensors)
    array = np.ones(4)
    numpy_weights.save_file({"x": array, "y": array}, path)  # Of arrays they say nothing.
    assert len(numpy_weights.load_file(path)) == 2


def test_bytes_are_a_file_as_well(tmp_path):
    tensors = {"a": random_tensor(torch.bfloat16, 3, 4), "none": torch.empty(0, 5)}
    content = weights.save(tensors, {"note": "n"})
    assert equal(rival.load(content), tensors) and equal(weights.load(content), tensors)
    assert equal(weights.load(rival.save(tensors)), tensors)
    weights.save_file(tensors, tmp_path / "model", {"note": "n"})
    assert (tmp_path / "model").read_bytes() == content
    array = np.arange(4, dtype=np.int32)
    assert numpy_weights.load(numpy_weights.save({"a": array, "b": array}))["b"].tolist() == [0, 1, 2, 3]
    with pytest.raises(weights.WeightsError, match="header"):
        weights.load(b"")


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 3)
        self.b = self.a


def test_a_module_with_tied_parameters_is_saved_once_and_comes_back(tmp_path):
    module, path = Tied(), tmp_path / "model"
    weights.save_model(module, path, {"note": "n"})
    with safetensors.safe_open(path, "pt") as opened:
        assert sorted(opened.keys()) == ["a.bias", "a.weight"]
        assert opened.metadata() == {"note": "n", "b.bias": "a.bias", "b.weight": "a.weight"}
    for load in (weights.load_model, rival.load_model):
        other = Tied()
        missing, unexpected = load(other, path)
        assert not missing and not unexpected and equal(other.state_dict(), module.state_dict())
    rival.save_model(module, path)
    assert weights.load_model(other := Tied(), path) == ([], []) and equal(other.state_dict(), module.state_dict())


def test_parts_of_which_none_is_the_whole_are_no_model(tmp_path):
    module, base = torch.nn.Module(), torch.zeros(8)
    module.register_buffer("x", base[:6])
    module.register_buffer("y", base[2:])
    with pytest.raises(RuntimeError, match="'x', 'y' share memory, and none of them has all of it"):
        weights.save_model(module, tmp_path / "model")
    with pytest.raises(RuntimeError):
        rival.save_model(module, tmp_path / "model")


def test_a_module_that_is_not_contiguous_is_saved_where_that_is_allowed(tmp_path):
    module = torch.nn.Linear(4, 3)
    module.weight = torch.nn.Parameter(torch.rand(4, 3).t())
    with pytest.raises(ValueError, match=r"'weight' is not contiguous.*save_model\(..., force_contiguous=True\)"):
        weights.save_model(module, tmp_path / "model", force_contiguous=False)
    weights.save_model(module, tmp_path / "model")
    assert equal(rival.load_file(tmp_path / "model"), {name: tensor.contiguous()
                                                       for name, tensor in module.state_dict().items()})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_two_tensors_that_differ_for_one_parameter_are_refused(tmp_path, dtype):
    names = ["a.weight", "a.bias", "b.weight", "b.bias"]
    same = {name: torch.full((3, 4) if "weight" in name else (3,), 7.0, dtype=dtype) for name in names}
    weights.save_file(same, tmp_path / "same")
    assert weights.load_model(module := Tied(), tmp_path / "same") == ([], [])
    assert raw(module.b.weight) == raw(torch.full((3, 4), 7.0))
    weights.save_file({**same, "b.weight": torch.ones(3, 4), "b.bias": torch.ones(3)}, tmp_path / "other")
    for load in (weights.load_model, rival.load_model):
        with pytest.raises(RuntimeError, match='Unexpected key\\(s\\) in state_dict: "b.bias", "b.weight"'):
            load(Tied(), tmp_path / "other")
    assert weights.load_model(Tied(), tmp_path / "other", strict=False) == ([], ["b.bias", "b.weight"])


def test_names_that_are_missing_are_told_in_the_words_of_torch(tmp_path):
    weights.save_file({"weight": torch.ones(3, 4), "more": torch.ones(1)}, tmp_path / "model")
    with pytest.raises(RuntimeError, match='Missing key.* "bias". Unexpected key.* "more"') as refused:
        weights.load_model(torch.nn.Linear(4, 3), tmp_path / "model")
    assert isinstance(refused.value, weights.WeightsError)


@pytest.fixture
def mesh(tmp_path):
    from torch.distributed.device_mesh import init_device_mesh

    torch.distributed.init_process_group("gloo", store=torch.distributed.FileStore(str(tmp_path / "store"), 1), rank=0,
                                         world_size=1)
    yield init_device_mesh("cpu", (1,))
    torch.distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind, sentence", [
    ("coo", "'odd' is sparse .torch.sparse_coo.: pass its to_dense"), ("csr", "'odd' is sparse .torch.sparse_csr."),
    ("meta", "'odd' is of the device \"meta\", which has no bytes"), ("nested", "'odd' is a nested tensor"),
    ("quantized", "'odd': the format has no dtype torch.quint8"), ("list", "'odd' is of type list"),
    ("none", "'odd' is of type NoneType"), ("DTensor", "'odd' is a DTensor, .*full_tensor"), ("subclass", "'odd'")])
def test_tensors_without_plain_bytes_are_refused_by_name(tmp_path, mesh, kind, sentence):
    from torch.distributed.tensor import Shard, distribute_tensor

    class Wrapped(torch.Tensor):
        @staticmethod
        def __new__(cls):
            return torch.Tensor._make_wrapper_subclass(cls, (2,))

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            raise NotImplementedError(f"{function} of a tensor without bytes")

    odd = {"coo": lambda: torch.eye(2).to_sparse(), "csr": lambda: torch.eye(2).to_sparse_csr(),
           "meta": lambda: torch.ones(2, device="meta"), "list": lambda: [1.0], "none": lambda: None,
           "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "subclass": Wrapped,
           "quantized": lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
           "DTensor": lambda: distribute_tensor(torch.ones(4), mesh, [Shard(0)])}[kind]()
    path = tmp_path / "model"
    weights.save_file({"kept": torch.ones(1)}, path)
    with pytest.raises(weights.WeightsError, match=sentence):
        weights.save_file({"fine": torch.ones(3), "odd": odd}, path)
    assert equal(rival.load_file(path), {"kept": torch.ones(1)})


@pytest.mark.parametrize("tensors", [[("a", torch.ones(1))], None, torch.ones(2), "a", {1: torch.ones(1)},
                                     {"a": torch.ones(1), None: torch.ones(1)}])
def test_what_is_no_dict_of_names_is_refused(tmp_path, tensors):
    with pytest.raises(weights.WeightsError, match="expected a dict by name|names of tensors"):
        weights.save_file(tensors, tmp_path / "model")
    with pytest.raises(weights.WeightsError, match="metadata are of type list|metadata are text"):
        weights.save_file({"a": torch.ones(1)}, tmp_path / "model", [("a", "b")])
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("shape", [[0, 2 ** 63], [2 ** 64 - 1, 0], [0, 2 ** 62, 2 ** 62], [0, 2 ** 63 - 1], [0, 2, 0],
                                   [2 ** 31, 2 ** 31, 0], [3, 0, 2 ** 60], [2 ** 32, 2 ** 31, 0]])
@pytest.mark.parametrize("framework", ["pt", "np"])
def test_shapes_without_elements_are_what_they_are_there_or_refused_by_name(tmp_path, shape, framework):
    path = write(tmp_path / "model", {"odd": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}})
    try:
        with safetensors.safe_open(path, framework) as opened:
            expected = opened.get_tensor("odd").shape
    except Exception:
        expected = None
    with weights.safe_open(path, framework) as ours:
        for load in (lambda: ours.get_tensor("odd"), lambda: ours.get_tensors()["odd"],
                     lambda: weights.Weights(path).plan(framework=framework).load()["odd"]):
            if expected is not None:
                assert load().shape == expected
                continue
            with pytest.raises(weights.WeightsError, match="model: tensor 'odd' of shape .[0-9]") as refused:
                load()
            assert "\n" not in str(refused.value)


@pytest.mark.parametrize("metadata", [{}, None, {"step": 3}, {"a": {"b": "c"}}, [], "text", 0, {"a": None}])
def test_metadata_are_read_or_refused_as_there(tmp_path, metadata):
    path = write(tmp_path / "model", {"__metadata__": metadata, "w": {"dtype": "U8", "shape": [2],
                                                                      "data_offsets": [0, 2]}}, b"ab")
    try:
        expected = rival.load_file(path)
    except Exception:
        with pytest.raises(weights.WeightsError, match="__metadata__"):
            weights.load_file(path)
        return
    assert equal(weights.load_file(path), expected)
    with weights.safe_open(path) as opened:
        assert opened.metadata() == metadata


def test_a_device_that_there_is_not_is_told(model):
    path, _ = model
    for load in (lambda: weights.load_file(path, "nonsense"), lambda: weights.Weights(path).plan(device="cpu:x"),
                 lambda: weights.safe_open(path, device=object())):
        with pytest.raises(weights.WeightsError, match="device .*"):
            load()


def test_what_the_caller_raises_stays_what_it_is(model):
    def progress(_):
        raise RuntimeError("of the caller")

    with pytest.raises(RuntimeError, match="^of the caller$"):
        weights.Weights(model[0]).plan().load(progress)


@pytest.mark.parametrize("error, kind", [(torch.OutOfMemoryError("full"), torch.OutOfMemoryError),
                                         (RuntimeError("DefaultCPUAllocator: can't allocate memory"), MemoryError),
                                         (RuntimeError("of C++\nat place 7"), weights.WeightsError)])
def test_memory_that_is_short_is_told_as_that(model, monkeypatch, error, kind):
    from penstock.weights import arrays

    def memory(*_):
        raise error

    monkeypatch.setattr(arrays.TorchArrays, "memory", memory)
    with pytest.raises(kind) as caught:
        weights.load_file(model[0])
    assert "place 7" not in str(caught.value)
    assert kind is torch.OutOfMemoryError or str(model[0]) in str(caught.value)


@pytest.mark.parametrize("name", ["model.safetensors", "model.pt", "model.safetensors.index.json", ".metadata"])
def test_a_pipe_keeps_nobody_waiting(tmp_path, name):
    os.mkfifo(tmp_path / name)
    loads = [weights.Weights, weights.load_file, weights.load_torch, lambda path: weights.Weights([path]),
             lambda path: weights.convert(path, tmp_path / "out")]
    for load in [weights.Weights] if name in ("model.safetensors.index.json", ".metadata") else loads:
        with pytest.raises(OSError, match=f"{name}: it is a pipe, where a regular file is wanted"):
            load(tmp_path / name)
    with pytest.raises((OSError, weights.WeightsError), match="it is a pipe|no safetensors file is in this folder"):
        weights.Weights(tmp_path)


@pytest.mark.filterwarnings("ignore")
def test_a_pipe_that_a_checkpoint_names_keeps_nobody_waiting(tmp_path):
    torch.distributed.checkpoint.save({"a": torch.ones(4)}, checkpoint_id=tmp_path / "c", no_dist=True)
    (data,) = (tmp_path / "c").glob("*.distcp")
    plan = weights.Weights(tmp_path / "c").plan()
    data.unlink()
    os.mkfifo(data)
    with pytest.raises(OSError, match="distcp: it is a pipe"):
        weights.Weights(tmp_path / "c")
    with pytest.raises((OSError, weights.WeightsError), match="distcp"):
        plan.load()
