#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Tensor-parallel ranks that load a model, each alone and together, one process for each GPU of the host.

    ranks.py FOLDER [--pairs 5]

FOLDER has the safetensors files that bench/python/weights.py makes. The ways take turns; the first turn of each does
not count. A figure is the time of the slowest rank, and what all of them read of storage, as a share of the files.
"""

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed
import torch.multiprocessing

from penstock import weights
from turns import figure, there_and_back

ALONE, TOGETHER = "alone", "together"


def ways(found, rank, world, group):
    def parts(dim):
        return {tensor.name: weights.Part.of_rank(tensor.shape[dim], dim, rank, world)
                for tensor in found.tensors.values()}

    return {("parts of dimension 0", ALONE): {"parts": parts(0)},
            ("parts of dimension 0", TOGETHER): {"parts": parts(0), "group": group},
            ("parts of dimension 1", ALONE): {"parts": parts(1)},
            ("parts of dimension 1", TOGETHER): {"parts": parts(1), "group": group},
            ("whole tensors", ALONE): {}, ("whole tensors", TOGETHER): {"group": group}}


def turn(found, device, world, options):
    torch.cuda.synchronize()
    torch.distributed.barrier()
    begin = time.perf_counter()
    plan = found.plan(device=device, **options)
    tensors = plan.load()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    del tensors
    said = [None] * world
    torch.distributed.all_gather_object(said, (seconds, plan.progress.bytes_done))
    return max(each for each, _ in said), sum(each for _, each in said) / found.nbytes


def run(rank, world, folder, pairs):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl", rank=rank, world_size=world, device_id=device)
    found = weights.Weights(folder)
    wanted = ways(found, rank, world, torch.distributed.group.WORLD)
    turns = {way: [] for way in wanted}
    for _, way in there_and_back(wanted, pairs + 1):
        turns[way].append(turn(found, device, world, wanted[way]))
    if rank == 0:
        tell(turns, world, found.nbytes)
    torch.distributed.destroy_process_group()


def tell(turns, world, nbytes):
    counted = {way: [seconds for seconds, _ in each[1:]] for way, each in turns.items()}
    share = statistics.median(counted["parts of dimension 0", ALONE])
    print(f"{world} ranks on {torch.cuda.get_device_name()}, {nbytes / 1e9:.2f} GB")
    for (what, how), seconds in counted.items():
        print(f"{what:22} {how:9} {figure([1e3 * each for each in seconds], ' ms', 1, 7)}, of the first "
              f"{statistics.median(seconds) / share:.2f}; from storage {turns[what, how][1][1]:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    said = parser.parse_args()
    world = torch.cuda.device_count()
    if world < 2:
        print("ranks: it takes two GPUs", file=sys.stderr)
        return 77
    torch.multiprocessing.spawn(run, (world, said.folder, said.pairs), world)
    return 0


if __name__ == "__main__":
    sys.exit(main())
