# SPDX-License-Identifier: Apache-2.0

"""Ranks of torch.distributed that save checkpoints together: python checkpoint_ranks.py FOLDER RANK WORLD."""

import sys
from pathlib import Path

import torch
import torch.distributed
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor


def whole():
    """What is saved, the same on every rank: the first dimension of `few` does not reach every rank of three."""
    torch.manual_seed(7)
    return {"rows": torch.rand(10, 6), "columns": torch.rand(5, 7), "few": torch.rand(2, 3).bfloat16(),
            "all": torch.rand(4), "scalar": torch.tensor(2.5), "empty": torch.zeros(0, 4)}


def sharded(mesh):
    placed = {"rows": Shard(0), "columns": Shard(1), "few": Shard(0), "all": Replicate(), "empty": Shard(0)}
    tensors = whole()
    return {name: distribute_tensor(tensor, mesh, [placed[name]]) if name in placed else tensor
            for name, tensor in tensors.items()}


def save(folder, rank, world):
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank,
                                         world_size=world)
    state = sharded(init_device_mesh("cpu", (world,)))
    dcp.save({**state, "step": 7, "names": ["a", "b"]}, checkpoint_id=folder / "dcp")
    dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(str(folder / "hf"), save_distributed=True))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    save(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
