# SPDX-License-Identifier: Apache-2.0

"""penstock.checkpoint under torch.distributed.checkpoint: other numbers of ranks, kills, and what is told of damage."""

import os

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("numpy", reason="numpy is not installed, which torch.distributed.checkpoint asks for")

import torch.distributed.checkpoint as dcp

import checkpoint_job
import penstock
from penstock import checkpoint, weights
from penstock.checkpoint.distributed import Reader, Writer
from ranks import run
from stress_checkpoints import kill_again_and_again
from tensors import raw

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
KILLS = 20


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """By four ranks."""
    folder = tmp_path_factory.mktemp("checkpoint")
    run(4, folder, (checkpoint_job.save, folder / "first"), (checkpoint_job.save, folder / "second"))
    return folder


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_any_number_of_ranks_loads_what_four_have_saved(saved, tmp_path, world):
    for said in run(world, tmp_path, (checkpoint_job.load, saved / "first"), (checkpoint_job.load, saved / "second")):
        assert said == ["loaded 1", "loaded 2"]


def test_it_is_checked_and_found_like_any_other(saved):
    assert checkpoint.verify(saved / "first").names == 9
    assert checkpoint.latest(saved) == saved / "second"
    found = weights.Weights(saved / "first")
    assert set(found.objects) == {"rng", "epoch"}
    loaded = found.plan().load()
    assert {name: tuple(tensor.shape) for name, tensor in loaded.items()} == {
        **{f"model.p{i}": (11 + i, 8) for i in range(5)}, "small": (1, 8), "step": ()}
    with pytest.raises(checkpoint.CheckpointError, match="Reader"):
        checkpoint.load(saved / "first")


def test_fewer_bytes_are_read_than_stock_reads(tmp_path):
    """A part of a chunk is a part of its bytes."""
    state = {"a": torch.randn(1024, 256)}
    dcp.save(state, storage_writer=Writer(tmp_path / "a"), no_dist=True)
    with penstock.Session(device="host") as session:
        found = weights.Weights(tmp_path / "a").plan(parts={"a": weights.Part(0, 0, 64)}, session=session)
        assert torch.equal(found.load()["a"], state["a"][:64])
        assert sum(row["read_bytes"] for row in session.counters()) == 64 * 256 * 4


def test_saving_in_the_background_saves_the_same(tmp_path):
    said = run(2, tmp_path, (checkpoint_job.save_async, tmp_path / "a"), (checkpoint_job.load, tmp_path / "a"))
    assert said == [["saved 1", "loaded 1"]] * 2


def test_every_kind_of_tensor_comes_back(tmp_path):
    kinds = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float8_e4m3fn, torch.complex128]
    state = {str(kind): (torch.arange(24) % 2).to(kind).reshape(4, 6) for kind in kinds}
    state |= {"0d": torch.tensor(3), "empty": torch.zeros(0, 4), "turned": torch.randn(5, 3).t(), "text": "x"}
    dcp.save(state, storage_writer=Writer(tmp_path / "a"), no_dist=True)
    loaded = {name: torch.zeros_like(value) if isinstance(value, torch.Tensor) else "" for name, value in state.items()}
    dcp.load(loaded, storage_reader=Reader(tmp_path / "a"), no_dist=True)
    for name, value in state.items():
        if isinstance(value, torch.Tensor):
            assert raw(loaded[name]) == raw(value), name
        else:
            assert loaded[name] == value


@pytest.mark.parametrize("damage", ["bit", "page", "cut", "mixed"])
def test_damage_is_told_by_name_where_stock_says_nothing(tmp_path, damage):
    for folder, value in (("a", 1.0), ("b", 2.0)):
        dcp.save({"w": torch.full((4096,), value)}, storage_writer=Writer(tmp_path / folder), no_dist=True)
    file, other = (next((tmp_path / folder).glob("*.data")) for folder in "ab")
    content = bytearray(file.read_bytes())
    if damage == "bit":
        content[5000] ^= 1
    elif damage == "page":
        content[4096:8192] = bytes(4096)
    elif damage == "cut":
        del content[8192:]
    else:
        content[8192:] = other.read_bytes()[8192:]
    file.write_bytes(content)
    state = {"w": torch.zeros(4096)}
    with pytest.raises(dcp.CheckpointException) as caught:
        dcp.load(state, storage_reader=Reader(tmp_path / "a"), no_dist=True)
    assert file.name in str(caught.value)
    assert "it was cut" in str(caught.value) if damage == "cut" else "the checksum of 'w' is wrong" in str(caught.value)


def test_stock_checkpoints_are_read_and_become_ours(tmp_path):
    run(2, tmp_path, (checkpoint_job.save_stock, tmp_path / "stock"))
    tensors = weights.Weights(tmp_path / "stock").plan().load()
    checkpoint.save(tensors, tmp_path / "ours")
    loaded = checkpoint.load(tmp_path / "ours")
    assert loaded.keys() == tensors.keys() and all(torch.equal(loaded[name], tensors[name]) for name in tensors)


def test_a_save_that_will_not_fit_is_refused_on_every_rank(tmp_path, monkeypatch):
    class Full:
        f_bavail, f_frsize = 1, 4096

    monkeypatch.setattr(os, "statvfs", lambda folder: Full)
    with pytest.raises(dcp.CheckpointException, match="4096 are free: nothing was written"):
        dcp.save({"w": torch.zeros(4096)}, storage_writer=Writer(tmp_path / "a"), no_dist=True)
    assert list((tmp_path / "a").iterdir()) == []


def test_whoever_is_killed_the_newest_whole_one_is_there(tmp_path):
    """A random rank is killed at a random moment, again and again; `./dev stress` does it thousands of times."""
    kill_again_and_again(tmp_path, KILLS, seed=11)
    for root in tmp_path.glob("keep-*"):
        checkpoint.verify(checkpoint.latest(root))


def test_plans_that_the_planner_keeps_serve_every_save(tmp_path):
    for number in (1, 2, 3):
        planner = dcp.DefaultSavePlanner(enable_plan_caching=True)
        dcp.save({"w": torch.full((4,), float(number))}, storage_writer=Writer(tmp_path / "a"), planner=planner,
                 no_dist=True)
        state = {"w": torch.zeros(4)}
        dcp.load(state, storage_reader=Reader(tmp_path / "a"), no_dist=True)
        assert state["w"].tolist() == [number] * 4
