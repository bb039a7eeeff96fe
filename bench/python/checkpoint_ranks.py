#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Ranks that save and load one state together: penstock.checkpoint beside torch's own files, a process for each GPU.

    checkpoint_ranks.py FOLDER [--gib 8] [--tensors 64] [--pairs 3] [--durable] [--cpu-ranks N]

The state is DTensors, cut by rows over all ranks. The sides take turns; the first turn of each does not count. A figure
is the bytes of all ranks by the time of the slowest. --cpu-ranks: so many of gloo, without a GPU.
"""

import argparse
import os
import shutil
import sys
import time
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from checkpoint import settle, state_of
from penstock.checkpoint.distributed import Reader, Writer
from turns import figure, there_and_back


def sides(base, durable):
    def ours(state):
        dcp.save(state, storage_writer=Writer(base / "ours", durable=durable))

    def stock(state):
        dcp.save(state, storage_writer=dcp.FileSystemWriter(base / "stock", single_file_per_rank=False, thread_count=8,
                                                            sync_files=durable))

    def load_ours(state):
        dcp.load(state, storage_reader=Reader(base / "ours"))

    def load_stock(state):
        dcp.load(state, storage_reader=dcp.FileSystemReader(base / "stock"))

    return {"save": {"penstock.checkpoint": ours, "FileSystemWriter, 8 threads": stock},
            "load": {"penstock.checkpoint": load_ours, "FileSystemReader": load_stock}}


def seconds_of(work, state, nbytes):
    torch.cuda.synchronize() if torch.cuda.is_available() else None
    if dist.get_rank() == 0:
        settle(nbytes)
    dist.barrier()
    begin = time.perf_counter()
    work(state)
    torch.cuda.synchronize() if torch.cuda.is_available() else None
    took = [None] * dist.get_world_size()
    dist.all_gather_object(took, time.perf_counter() - begin)
    return max(took)


def run(rank, world, said):
    warnings.simplefilter("ignore")
    kind = "cpu" if said.cpu_ranks else "cuda"
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK=str(rank), WORLD_SIZE=str(world),
                      LOCAL_RANK=str(rank))
    if kind == "cuda":
        torch.cuda.set_device(rank)
    # Of both kinds, since torch's own planning gathers objects on the CPU where it can.
    dist.init_process_group("cpu:gloo,cuda:nccl" if kind == "cuda" else "gloo", rank=rank, world_size=world)
    mesh = init_device_mesh(kind, (world,))
    torch.manual_seed(rank)
    state = {name: DTensor.from_local(part, mesh, [Shard(0)])
             for name, part in state_of(int(said.gib * 2**30) // world, said.tensors, kind).items()}
    nbytes = world * sum(each.to_local().nbytes for each in state.values())
    before = {name: each.to_local().clone() for name, each in state.items()}
    base = said.folder / "penstock-bench-ranks"
    if rank == 0:
        print(f"{world} ranks, {nbytes / 1e9:.2f} GB, {'durable' if said.durable else 'not flushed'}", flush=True)
        base.mkdir(parents=True)
    for what, each in sides(base, said.durable).items():
        rates = {side: [] for side in each}
        for _, side in there_and_back(rates, said.pairs + 1):
            rates[side].append(nbytes / 1e9 / seconds_of(each[side], state, 2 * nbytes))
        if rank == 0:
            for side, samples in rates.items():
                print(f"{what}: {side:28} {figure(samples[1:], ' GB/s', width=7)}", flush=True)
    for name, each in state.items():
        assert torch.equal(each.to_local().view(torch.int16), before[name].view(torch.int16)), name
    dist.barrier()
    if rank == 0:
        shutil.rmtree(base)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gib", type=float, default=8)
    parser.add_argument("--tensors", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--durable", action="store_true")
    parser.add_argument("--cpu-ranks", type=int, default=0)
    said = parser.parse_args()
    world = said.cpu_ranks or torch.cuda.device_count()
    if world < 2:
        print("checkpoint_ranks: it takes two GPUs, or --cpu-ranks", file=sys.stderr)
        return 77
    torch.multiprocessing.spawn(run, (world, said), world)
    return 0


if __name__ == "__main__":
    sys.exit(main())
