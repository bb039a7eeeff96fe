#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Tensor-parallel ranks that load a model, each alone and together, beside pinned copies and safetensors' prefetch.

    torchrun --nproc-per-node 2 ranks.py FOLDER [--pairs 5] [--only WAY,...] [--device cpu]

FOLDER has the safetensors files that bench/python/weights.py makes. All ranks together want each byte of them once:
rows (parts of dimension 0), columns (of dimension 1) or experts (tensors of each rank's own); "whole" is all of them on
every rank. The ways take turns. The first turn of each does not count for the rate, and what comes together is then
compared with what safetensors cuts from the files. A rate is the bytes that ranks want by the time of the slowest rank.
"""

import argparse
import datetime
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import penstock
from penstock import weights
from turns import figure, machine, there_and_back
from weights import packed

KINDS = ("rows", "columns", "experts", "whole")


def memory_kib(key):
    with open("/proc/self/status") as file:
        return next((int(line.split()[1]) for line in file if line.startswith(key + ":")), 0)


def pinned_copies(ranks, kind):
    """What the links give: a copy of as many bytes as each rank wants."""
    wanted = ranks.found.nbytes // (1 if kind == "whole" else ranks.world)
    target = torch.empty(wanted, dtype=torch.uint8, device=ranks.device)
    for begin in range(0, wanted, ranks.pinned.nbytes):
        part = target[begin:begin + ranks.pinned.nbytes]
        part.copy_(ranks.pinned[:part.nbytes], non_blocking=True)
    return {"": target}


def loaded(ranks, kind, session=None, group=None):
    names, parts = ranks.wanted(kind)
    plan = ranks.found.plan(names, parts=parts, device=ranks.device, group=group, session=session)
    tensors = plan.load()
    ranks.read = plan.progress.bytes_done
    return tensors


def together(ranks, kind):
    return loaded(ranks, kind, group=dist.group.WORLD)


def registered(ranks, kind):
    """By the GPU's own DMA from the page cache, of pages that stay registered from turn to turn."""
    return loaded(ranks, kind, session=ranks.keeping, group=dist.group.WORLD)


def safetensors_prefetch(ranks, kind):
    """Each rank by a plan of its own, as its authors have it: rows are slices, columns are cut from whole tensors."""
    from safetensors import safe_open

    names, parts = ranks.wanted(kind)
    tensors = {}
    loaders = []
    for path in ranks.found.files:
        opened = safe_open(str(path), framework="pt", device=str(ranks.device))
        here = [name for name in opened.keys() if names is None or name in names]
        rows = {name: slice(parts[name].start, parts[name].stop) if kind == "rows" else None for name in here}
        if here:
            loaders.append(opened.prefetch(rows))
    for loader in loaders:
        for name, tensor in loader:
            part = parts.get(name)
            tensors[name] = tensor if kind != "columns" else tensor[:, part.start:part.stop].contiguous()
    return tensors


def flashpack(ranks, kind):
    """FlashPack's own files: each rank reads a share of all, past the page cache, and every rank gets all."""
    from flashpack.deserialization import iterate_from_flash_tensor, read_flashpack_file_distributed

    if kind != "whole":
        raise ValueError("it gives every rank all of the tensors")
    files = [packed(path) for path in ranks.found.files] if ranks.rank == 0 else []
    tensors = {}
    for file in ranks.all(files)[0]:
        storage, metadata = read_flashpack_file_distributed(file, ranks.device, sharded=True)
        tensors.update(iterate_from_flash_tensor(storage, metadata))
    return tensors


WAYS = {"together": together, "pinned copies": pinned_copies, "alone": loaded, "together, registered": registered,
        "safetensors prefetch": safetensors_prefetch, "FlashPack": flashpack}


class Ranks:
    """What the processes of one measurement share."""

    def __init__(self, said):
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        local = int(os.environ.get("LOCAL_RANK", self.rank))
        self.device = torch.device("cuda", local) if said.device == "cuda" else torch.device("cpu")
        limit = datetime.timedelta(seconds=60)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
            dist.init_process_group("nccl", timeout=limit, device_id=self.device)
        else:
            dist.init_process_group("gloo", timeout=limit)
        self.found = weights.Weights(said.folder)
        self.pinned = torch.empty(256 << 20, dtype=torch.uint8, pin_memory=self.device.type == "cuda")
        self.keeping = penstock.Session(policy="cpu")
        self.read = 0

    def wanted(self, kind):
        """Names (None for all) and parts."""
        every = self.found.tensors
        if kind == "whole":
            return None, {}
        if kind == "experts":
            each = len(every) // self.world
            return list(every)[self.rank * each:(self.rank + 1) * each], {}
        dim = KINDS.index(kind)
        return None, {name: weights.Part.of_rank(tensor.shape[dim], dim, self.rank, self.world)
                      for name, tensor in every.items()}

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def all(self, own):
        said = [None] * self.world
        dist.all_gather_object(said, own)
        return said


def turn(ranks, way, kind, is_first):
    """Seconds of the slowest rank, the bytes that all read, the most device memory besides the tensors that torch held,
    host memory that came to it, and what went wrong."""
    is_cuda = ranks.device.type == "cuda"
    if is_first and is_cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_reserved() if is_cuda else 0
    before, ranks.read, error, tensors = memory_kib("VmHWM"), 0, None, {}
    dist.barrier()
    ranks.synchronize()
    began = time.perf_counter()
    try:
        tensors = WAYS[way](ranks, kind)
    except Exception as failure:  # noqa: BLE001, another loader's own.
        error = f"{type(failure).__name__}: {failure}".splitlines()[0]
    ranks.synchronize()
    seconds = time.perf_counter() - began
    kept = sum(tensor.nbytes for tensor in tensors.values())
    peak = torch.cuda.max_memory_reserved() - held - kept if is_cuda else 0
    host = memory_kib("VmHWM") - before
    if is_first and error is None and way in ("together", "together, registered"):
        check(ranks, kind, tensors)
    said = ranks.all((seconds, ranks.read, peak, host, error))
    return (max(each[0] for each in said), sum(each[1] for each in said), max(each[2] for each in said),
            max(each[3] for each in said), next(filter(None, (each[4] for each in said)), None))


def check(ranks, kind, tensors):
    """That the tensors are what safetensors cuts from the files."""
    from safetensors import safe_open

    names, parts = ranks.wanted(kind)
    seen = 0
    for path in ranks.found.files:
        with safe_open(str(path), framework="pt") as opened:
            for name in opened.keys():
                if names is None or name in names:
                    index = tuple(slice(None) for _ in range(parts[name].dim)) if name in parts else ()
                    index += (slice(parts[name].start, parts[name].stop),) if name in parts else (slice(None),)
                    cut = opened.get_slice(name)[index].to(ranks.device)
                    assert torch.equal(cut.view(torch.uint8), tensors[name].view(torch.uint8)), name
                    seen += 1
    assert seen == len(tensors), (seen, len(tensors))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--only", default=";".join(WAYS), help="the ways, with ; between them")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    said = parser.parse_args()
    if "RANK" not in os.environ or (said.device == "cuda" and torch.cuda.device_count() < 2):
        print("ranks: run it by torchrun, on two GPUs at least", file=sys.stderr)
        return 77
    ranks = Ranks(said)
    gpu = torch.cuda.get_device_name() if said.device == "cuda" else "no GPU"
    if ranks.rank == 0:
        print(f"{machine(gpu)}: {ranks.world} ranks, {ranks.found.nbytes / 1e9:.2f} GB, {len(ranks.found.tensors)} "
              "tensors", flush=True)
    for kind in said.kinds.split(","):
        measure(ranks, kind, said)
    dist.destroy_process_group()
    return 0


def measure(ranks, kind, said):
    turns = {}
    for way in said.only.split(";"):
        first = turn(ranks, way, kind, True)
        if first[-1] is None:
            turns[way] = [first]
        elif ranks.rank == 0:
            print(f"{kind:8} {way:22} left out: {first[-1]}", flush=True)
    for _, way in there_and_back(turns, said.pairs):
        turns[way].append(turn(ranks, way, kind, False))
    total = ranks.found.nbytes * (ranks.world if kind == "whole" else 1) / 1e9
    for way, each in turns.items() if ranks.rank == 0 else ():
        rates = [total / seconds for seconds, *_ in each[1:]]
        print(f"{kind:8} {way:22} {figure(rates, ' GB/s', 1, 6)}; read {each[0][1] / ranks.found.nbytes:.3f} of the "
              f"files; at first {total / each[0][0]:.1f} GB/s, device {each[0][2] >> 20} MiB besides the tensors, host "
              f"{each[0][3] >> 10} MiB more", flush=True)


if __name__ == "__main__":
    sys.exit(main())
