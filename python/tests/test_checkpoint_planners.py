# SPDX-License-Identifier: Apache-2.0

"""What torch's planners ask of penstock.checkpoint: states of all kinds, parts of them, and what has no place there."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("numpy", reason="numpy is not installed, which torch.distributed.checkpoint asks for")

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import penstock
from penstock import checkpoint, weights
from penstock.checkpoint import reading
from penstock.checkpoint.distributed import Reader, Writer
from ranks import run
from tensors import random_tensor, raw

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is", "ignore:TypedStorage is deprecated",
                                        "ignore:torch.quantize", "ignore:ComplexHalf")
LACKING = ("bits", "complex32", "int1", "int2", "int3", "int4", "int5", "int6", "int7", "qint", "quint")
RATIO_MAX = 1.05


def save(state, folder, **options):
    dcp.save(state, storage_writer=Writer(folder), no_dist=True, **options)
    return folder


def load(state, folder, **options):
    dcp.load(state, storage_reader=Reader(folder), no_dist=True, **options)
    return state


def is_lacking(dtype):
    name = str(dtype).removeprefix("torch.").removeprefix("u")
    return name.startswith(LACKING) and name not in ("int16", "int32", "int64")


def test_every_dtype_of_torch_comes_back_or_is_refused_by_its_name(tmp_path):
    refused, found = [], {each for each in vars(torch).values() if isinstance(each, torch.dtype)}
    for dtype in sorted(found, key=str):
        name = str(dtype).removeprefix("torch.")
        if is_lacking(dtype):
            try:
                state = {"a": {"w": torch.empty(6, dtype=dtype)}}
            except (RuntimeError, NotImplementedError):
                continue  # torch has the name of it alone.
            with pytest.raises(dcp.CheckpointException, match=f"tensor 'a.w' is of torch.{name}, which the format"):
                save(state, tmp_path / name)
            refused.append(name)
            assert not (tmp_path / name).exists()
            continue
        state = {"w": random_tensor(dtype, 5, 6), "0d": random_tensor(dtype, 1)[0], "none": random_tensor(dtype, 0, 6)}
        if name == "float4_e2m1fn_x2":
            with pytest.raises(dcp.CheckpointException, match="'0d' of float4_e2m1fn_x2 has no dimensions"):
                save(state, tmp_path / name)
            del state["0d"]
        before = {key: raw(tensor) for key, tensor in state.items()}
        loaded = load({key: torch.empty_like(tensor) for key, tensor in state.items()}, save(state, tmp_path / name))
        assert {key: raw(tensor) for key, tensor in loaded.items()} == before, name
    assert {"complex32", "quint8", "bits16"} <= set(refused)


def nested(value, number):
    return {"model": {"layers": [{"w": value(2, 3), "b": value(3)}, {"w": value(4, 1)}], "pair": (value(2), "text")},
            "a.b": value(1), "a": {"b.c": value(2)}, "7": {"8": value(3)}, "list": [number, [value(1), None]],
            "empty": {}, "none": [], "plain": {"n": number, "s": {number}, "f": 1.5 * number}}


def flat(state):
    if isinstance(state, torch.Tensor):
        return state.tolist()
    if isinstance(state, dict):
        return {key: flat(value) for key, value in state.items()}
    return [flat(value) for value in state] if isinstance(state, (list, tuple)) else state


@pytest.mark.parametrize("flatten", [True, False])
def test_dicts_and_lists_come_back_as_they_were(tmp_path, flatten):
    state = nested(lambda *shape: torch.randn(*shape), 3)
    how = {"flatten_state_dict": flatten, "flatten_sharded_tensors": flatten}
    save(state, tmp_path, planner=dcp.DefaultSavePlanner(**how))
    loaded = nested(lambda *shape: torch.zeros(*shape), 0)
    load(loaded, tmp_path, planner=dcp.DefaultLoadPlanner(**how))
    assert flat(loaded) == flat(state)


def test_memory_that_lies_as_it_likes_is_saved_and_filled(tmp_path):
    """Turned, with gaps, the same element again and again; parameters that gradients flow to."""
    base = torch.arange(48.0).reshape(6, 8)
    state = {"turned": base.t(), "some": base[::2, 1::3], "again": torch.ones(1, 4).expand(3, 4), "rows": base[2:4],
             "leaf": torch.nn.Parameter(base.clone())}
    save(state, tmp_path)
    memory = torch.zeros(6, 8)
    targets = {"turned": torch.zeros(6, 8).t(), "some": memory[::2, 1::3], "again": torch.zeros(4, 3).t(),
               "rows": torch.zeros(4, 8)[1:3], "leaf": torch.nn.Parameter(torch.zeros(6, 8))}
    places = {name: target.data_ptr() for name, target in targets.items()}
    load(targets, tmp_path)
    for name, tensor in state.items():
        assert torch.equal(targets[name], tensor) and targets[name].data_ptr() == places[name], name
    assert memory.sum() == base[::2, 1::3].sum() and targets["leaf"].requires_grad


def test_some_of_a_checkpoint_is_loaded_and_what_it_lacks_is_told(tmp_path):
    save({"a": torch.ones(3), "b": {"c": torch.ones(2), "n": 5}}, tmp_path)
    assert load({"b": {"n": 0}}, tmp_path) == {"b": {"n": 5}}
    with pytest.raises(dcp.CheckpointException, match="Missing key in checkpoint state_dict: b.other"):
        load({"a": torch.zeros(3), "b": {"other": torch.zeros(1)}}, tmp_path)
    state = load({"a": torch.zeros(3), "b": {"other": torch.full((1,), 7.0)}}, tmp_path,
                 planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
    assert flat(state) == {"a": [1, 1, 1], "b": {"other": [7]}}


@pytest.mark.parametrize("target", [torch.zeros(4), torch.zeros(3, 1), torch.zeros(())])
def test_a_tensor_of_another_shape_is_told_before_anything_is_read(tmp_path, target):
    save({"a": torch.ones(3), "w": torch.ones(3)}, tmp_path)
    state = {"a": torch.zeros(3), "w": target}
    with pytest.raises(dcp.CheckpointException, match="Size mismatch between saved .* for w"):
        load(state, tmp_path)
    assert state["a"].tolist() == [0, 0, 0]


def test_where_there_is_no_checkpoint_the_cause_is_told_once(tmp_path):
    for place in (tmp_path / "none", tmp_path):
        with pytest.raises(dcp.CheckpointException) as caught:
            load({"a": torch.zeros(1)}, place)
        assert str(caught.value).count("there is no checkpoint") == 1
        assert str(place / "checkpoint.json") in str(caught.value)


def save_columns(mesh, number, folder, state, tell):
    dcp.save({"m": {name: distribute_tensor(tensor, mesh, [Shard(1)]) for name, tensor in state.items()}},
             storage_writer=Writer(folder))


def test_names_that_look_like_those_of_pieces_are_names(tmp_path):
    """Targets that lie in columns are filled from pieces, which have names while they are read."""
    state = {name: torch.randn(4, 6) for name in ("w (piece 5)", "w again", "w")}
    run(2, tmp_path, (save_columns, tmp_path / "a", state))
    loaded = load({"m": {name: torch.zeros(6, 4).t() for name in state}}, tmp_path / "a")["m"]
    assert all(torch.equal(loaded[name], tensor) for name, tensor in state.items())


class Counter:
    """Anything with the two functions, as schedulers and data loaders have them."""

    def __init__(self, number):
        self.number, self.weight = number, torch.full((2,), float(number))

    def state_dict(self):
        return {"number": self.number, "weight": self.weight}

    def load_state_dict(self, state):
        self.number, self.weight = state["number"], state["weight"].clone()


def test_objects_with_a_state_are_asked_for_it_and_get_it(tmp_path):
    save({"counter": Counter(5), "loose": 1}, tmp_path)
    state = {"counter": Counter(0), "loose": 0}
    counter = state["counter"]
    load(state, tmp_path)
    assert state["counter"] is counter and (counter.number, counter.weight.tolist()) == (5, [5, 5])


def test_what_is_there_is_loaded_without_a_state_to_fill(tmp_path):
    """As torch's converters do it, which themselves read stock folders alone."""
    save({"model": {"w": torch.ones(2), "layers": [torch.zeros(1)]}, "n": 3}, tmp_path)
    everything = _load_state_dict_from_keys(storage_reader=Reader(tmp_path))
    assert flat(everything) == {"model": {"w": [1, 1], "layers": [[0]]}, "n": 3}
    some = _load_state_dict_from_keys({"model.w", "n"}, storage_reader=Reader(tmp_path))
    assert flat(some) == {"model": {"w": [1, 1]}, "n": 3}
    with pytest.raises(dcp.CheckpointException):
        dcp_to_torch_save(tmp_path, tmp_path / "file.pt")
    assert flat(weights.Weights(tmp_path).plan().load()) == {"model.w": [1, 1], "model.layers.0": [0]}


def save_copies(mesh, number, folder, tell):
    """What all ranks have, what each has alone, and what some have not."""
    rank = dist.get_rank()
    first = DeviceMesh("cpu", [0, 1])
    state = {"everywhere": torch.ones(1000), "copied": distribute_tensor(torch.ones(1000), mesh, [Replicate()]),
             "shared": distribute_tensor(torch.arange(1000.0), mesh, [Shard(0)]), f"of {rank}": torch.full((10,), rank)}
    if rank in (0, 1):
        state["of two"] = DTensor.from_local(torch.full((5,), float(rank)), first, [Shard(0)], run_check=False)
    writer = Writer(folder)
    dcp.save(state, storage_writer=writer)
    tell(writer.progress.bytes_done)
    for tensor in state.values():
        (tensor.to_local() if isinstance(tensor, DTensor) else tensor).zero_()
    dcp.load(state, storage_reader=Reader(folder))
    assert state["everywhere"].sum() == 1000 and torch.equal(state["shared"].full_tensor(), torch.arange(1000.0))
    assert torch.equal(state[f"of {rank}"], torch.full((10,), rank))
    if rank in (0, 1):
        assert state["of two"].to_local().tolist() == [rank] * 5


def test_what_several_ranks_have_is_written_by_one_of_them(tmp_path):
    results = run(3, tmp_path, (save_copies, tmp_path / "a"))
    nbytes = 3 * 1000 * 4 + 3 * 10 * 8 + 10 * 4
    assert sum(each for (each,) in results) == reading.read_layout(tmp_path / "a").nbytes == nbytes


def rows(mesh, number, dim=0):
    """4.5 MB in rows of which no number of ranks has equally many."""
    return {f"w{i}": distribute_tensor(torch.full((1003 + i, 256), float(number)), mesh, [Shard(dim)])
            for i in range(4)} | {"small": distribute_tensor(torch.ones(3, 256) * number, mesh, [Shard(dim)])}


def save_rows(mesh, number, folder, tell):
    dcp.save(rows(mesh, 1), storage_writer=Writer(folder))


def load_rows(mesh, number, folder, dim, tell):
    state = rows(mesh, 0, dim)
    with penstock.Session(device="host") as session:
        dcp.load(state, storage_reader=Reader(folder, session=session))
        read = sum(row["read_bytes"] for row in session.counters())
    assert all((tensor.to_local() == 1).all() for tensor in state.values())
    tell((read, sum(tensor.to_local().nbytes for tensor in state.values())))


@pytest.fixture(scope="module")
def rows_of_four(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    run(4, folder, (save_rows, folder / "a"))
    return folder / "a"


@pytest.mark.parametrize("world", [1, 3, 8])
def test_other_ranks_read_the_rows_that_they_want_and_no_more(rows_of_four, tmp_path, world):
    results = [each for (each,) in run(world, tmp_path, (load_rows, rows_of_four, 0))]
    read, wanted = (sum(each[i] for each in results) for i in (0, 1))
    assert wanted == reading.read_layout(rows_of_four).nbytes
    assert wanted <= read <= RATIO_MAX * wanted, \
        f"4 to {world} ranks: {read / wanted:.3f} of what they want was read, where 1.000 was measured"


def save_twice(mesh, number, folder, tell):
    """Two generations of which each file is as large as that of the other."""
    for each in (1, 2):
        dcp.save(rows(mesh, each), storage_writer=Writer(folder / f"{each}"))


def load_again(mesh, number, folder, tell):
    dcp.load(rows(mesh, 0), storage_reader=Reader(folder))


def file_of_rank(folder, rank):
    (found,) = folder.glob(f"*-{rank}-0.data")
    return found


@pytest.fixture(scope="module")
def generations_of_three(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generations")
    run(3, folder, (save_twice, folder))
    return folder


@pytest.mark.parametrize("damage", ["older", "missing"])
def test_a_file_of_another_generation_or_none_is_told_by_its_name(generations_of_three, tmp_path, damage):
    place = tmp_path / "a"
    place.mkdir()
    for path in (generations_of_three / "2").iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    file, older = file_of_rank(place, 1), file_of_rank(generations_of_three / "1", 1)
    assert file.stat().st_size == older.stat().st_size
    if damage == "older":
        file.write_bytes(older.read_bytes())
    else:
        file.unlink()
        assert checkpoint.latest(tmp_path) is None
    with pytest.raises((checkpoint.CheckpointError, FileNotFoundError), match=file.name):
        checkpoint.verify(place)
    with pytest.raises(AssertionError) as caught:  # What the ranks told.
        run(3, tmp_path, (load_again, place))
    expected = "the checksum of .* is wrong" if damage == "older" else "No such file"
    caught.match(f"{file.name}.*{expected}" if damage == "older" else f"{expected}.*{file.name}")
