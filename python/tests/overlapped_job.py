# SPDX-License-Identifier: Apache-2.0

"""A rank that trains under DDP or FSDP2 and saves its local parts by Saver("overlapped") at each step:

    python overlapped_job.py KIND FOLDER RANK WORLD [WIDTH [BUDGET_MIB]]

KIND: ddp or fsdp2. Under NCCL on a GPU, where there is one, else under gloo. Each save is then loaded and compared with
the bytes that the state had, and its report printed."""

import hashlib
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from penstock import checkpoint
from tensors import raw

STEPS = 5


def wrapped(kind, model, device):
    if kind == "ddp":
        return DistributedDataParallel(model)
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def state_of(model, optimizer):
    """The local parts of this rank, by names."""
    found = {f"model.{name}": local(each).detach() for name, each in model.state_dict().items()}
    for number, state in enumerate(optimizer.state.values()):
        found.update({f"optimizer.{number}.{name}": local(each) for name, each in state.items()})
    return found


def digests(state):
    return {name: hashlib.sha256(raw(each)).hexdigest() for name, each in state.items()}


def main(kind, folder, rank, world, width=64, budget_mib=0):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group("nccl" if device == "cuda" else "gloo", init_method=f"file://{folder}/ranks-{kind}",
                            rank=rank, world_size=world)
    torch.manual_seed(3)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width)) for _ in range(3)])
    model = wrapped(kind, model.to(device), device)
    expected, own = {}, Path(folder) / f"{kind}-{rank}"
    with checkpoint.Saver("overlapped", durable=False, device_budget_mib=budget_mib) as saver:
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for step in range(STEPS):
            model(torch.randn(8, width, device=device)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            expected[step] = digests(state_of(model, optimizer))
            saver.save(state_of(model, optimizer), own / f"step-{step}")
            print(saver.report(), flush=True)
        report = saver.report()
    assert [digests(checkpoint.load(own / f"step-{step}")) for step in range(STEPS)] == list(expected.values())
    assert len({tuple(each.values()) for each in expected.values()}) == STEPS
    at_once = [name for name in report.copied_at_once if "running" not in name and "num_batches" not in name]
    assert at_once == [] and report.hidden_bytes > 0, at_once
    print(f"{kind}, rank {rank} of {world}, {dist.get_backend()}: {STEPS} saves have the bytes of their steps",
          flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
