# SPDX-License-Identifier: Apache-2.0

"""What ranks of a job do (ranks.py) that saves and loads by torch.distributed.checkpoint."""

import itertools

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from penstock import checkpoint
from penstock.checkpoint.distributed import Reader, Writer
from penstock.checkpoint.safetensors import SafetensorsWriter


def full(name, number):
    generator = torch.Generator().manual_seed(number * 100 + name)
    return torch.randn(11 + name, 8, generator=generator)


def state_of(mesh, number):
    placements = [Shard(0), Shard(1), Replicate(), Shard(0), Shard(1)]
    sharded = {f"p{i}": distribute_tensor(full(i, number), mesh, [placements[i]]) for i in range(5)}
    # As an optimizer has it: a tensor with fewer rows than there are ranks, counters, plain objects.
    small = distribute_tensor(torch.full((1, 8), float(number)), mesh, [Shard(0)])
    return {"model": sharded, "small": small, "step": torch.tensor(float(number)), "rng": b"x" * number,
            "epoch": number}


def check(state, number):
    for i in range(5):
        assert torch.equal(state["model"][f"p{i}"].full_tensor(), full(i, number)), f"p{i} of {number}"
    assert torch.equal(state["small"].full_tensor(), torch.full((1, 8), float(number)))
    assert state["step"].item() == number and state["rng"] == b"x" * number and state["epoch"] == number


def save(mesh, number, folder, tell):
    dcp.save(state_of(mesh, number), storage_writer=Writer(folder))
    tell(f"saved {number}")


def save_async(mesh, number, folder, tell):
    dcp.async_save(state_of(mesh, number), storage_writer=Writer(folder)).result()
    tell(f"saved {number}")


def save_stock(mesh, number, folder, tell):
    dcp.save(state_of(mesh, number), storage_writer=dcp.FileSystemWriter(folder))
    tell(f"saved {number}")


def load(mesh, number, folder, tell):
    state = state_of(mesh, 0)
    dcp.load(state, storage_reader=Reader(folder))
    check(state, state["epoch"])
    tell(f"loaded {state['epoch']}")
    return state["epoch"]


def tensors_of(mesh, number):
    """What safetensors can hold of a state, with a share that not every rank has, and odd names."""
    state = state_of(mesh, number)
    odd = {'a "b"/\\.ä\n': torch.full((3,), float(number)), "": torch.tensor([number]), "$": torch.zeros(0, 4)}
    return {"model": state["model"], "small": state["small"], "step": state["step"], "odd": odd,
            "none": distribute_tensor(torch.zeros(0, 6), mesh, [Shard(1)])}


def save_safetensors(mesh, number, folder, tell):
    dcp.save(tensors_of(mesh, number), storage_writer=SafetensorsWriter(folder))
    tell(f"saved {number}")


def load_stock_safetensors(mesh, number, folder, tell):
    """By torch's own reader."""
    state = tensors_of(mesh, 0)
    dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(str(folder)))
    number = int(state["step"].item())
    check({**state, "rng": b"x" * number, "epoch": number}, number)
    assert {key: value.tolist() for key, value in state["odd"].items()} == {
        'a "b"/\\.ä\n': [number] * 3, "": [number], "$": []}
    tell(f"loaded {number}")


def save_safetensors_forever(mesh, number, folder, tell):
    for again in range(1, 1_000_000):
        tell(f"saving {again}")
        save_safetensors(mesh, again, folder, tell)


def go_on(mesh, number, root, keep, tell):
    """Loads what is newest in the root, and saves on from there for ever. keep: how many checkpoints; of one, each
    save is to the same folder."""
    newest = checkpoint.latest(root)
    last = 0 if newest is None else load(mesh, number, newest, tell)
    for again in itertools.count(last + 1):
        tell(f"saving {again}")
        save(mesh, again, root / ("same" if keep == 1 else f"step-{again}"), tell)
        if dist.get_rank() == 0 and keep > 1:
            checkpoint.retain(root, keep)
