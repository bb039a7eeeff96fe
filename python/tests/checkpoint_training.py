# SPDX-License-Identifier: Apache-2.0

"""What ranks of a job do (ranks.py) that trains with FSDP2, HSDP or tensor parallelism, saves, and goes on from there.

One batch alone has a loss: its gradients plus zeros are the same for any number of ranks, to the last bit.
"""

import hashlib

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from penstock.checkpoint.distributed import Reader, Writer
from tensors import raw


# How a model is laid out over the ranks. PARTS: how many of them share a batch, at most.
def fsdp(model, world):
    return fully_shard(model, mesh=init_device_mesh("cpu", (world,)))


def hsdp(model, world):
    return fully_shard(model, mesh=init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("copies", "shards")))


def tensor_parallel(model, world):
    mesh = init_device_mesh("cpu", (world,))
    return parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


def both(model, world):
    """Tensor parallelism by two, and FSDP over it."""
    mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("shards", "parts"))
    parallelize_module(model, mesh["parts"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return fully_shard(model, mesh=mesh["shards"])


PARTS = {fsdp: 1, hsdp: 1, tensor_parallel: 8, both: 2}


class Training(Stateful):
    """Model and optimizer, as torch.distributed.checkpoint asks for them. The last layer has fewer rows than there are
    ranks, so that most have none of it."""

    def __init__(self, layout, seed):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(6, 28), torch.nn.Tanh(), torch.nn.Linear(28, 10),
                                    torch.nn.Tanh(), torch.nn.Linear(10, 1))
        self.model = layout(model, dist.get_world_size())
        self.has_loss = dist.get_rank() < PARTS[layout]
        if isinstance(self.model, FSDPModule):
            self.model.set_gradient_divide_factor(1.0)
            self.model.set_force_sum_reduction_for_comms(True)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01, foreach=False)

    def step(self, number):
        """The loss."""
        batch = torch.randn(16, 6, generator=torch.Generator().manual_seed(number))
        self.optimizer.zero_grad()
        loss = self.model(batch).square().mean()
        (loss * self.has_loss).backward()
        self.optimizer.step()
        return loss.item()

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def load_state_dict(self, state):
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"],
                       optim_state_dict=state["optimizer"])

    def contents(self):
        """Of each parameter, moment and setting: of tensors a hash of all that ranks have together."""
        return dict(contents_of(self.state_dict()))


def contents_of(state, name=""):
    if isinstance(state, dict):
        for key, value in state.items():
            yield from contents_of(value, f"{name}.{key}")
    elif isinstance(state, torch.Tensor):
        whole = state.full_tensor() if isinstance(state, DTensor) else state
        yield name, (tuple(whole.shape), hashlib.sha256(raw(whole)).hexdigest())
    else:
        yield name, state


def train_and_save(mesh, number, layout, folder, tell):
    training = Training(layout, seed=1)
    for step in range(2):
        training.step(step)
    dcp.save({"training": training, "step": 2}, storage_writer=Writer(folder))
    tell(training.contents())
    tell((training.step(2), training.contents()))


def load_and_go_on(mesh, number, layout, folder, tell):
    training = Training(layout, seed=2)
    state = {"training": training, "step": 0}
    dcp.load(state, storage_reader=Reader(folder))
    assert state["step"] == 2
    tell(training.contents())
    tell((training.step(2), training.contents()))
