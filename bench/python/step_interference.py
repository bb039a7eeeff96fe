#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""What training steps feel of a save: penstock.checkpoint.Saver beside torch's async_save.

    step_interference.py FOLDER [--pairs 4] [--cpus N] [--json FILE] [--sides "A;B"]
    step_interference.py FOLDER --numpy [--gb 1]
    torchrun --nproc-per-node 2 step_interference.py FOLDER

A stack of transformer blocks under AdamW makes steps, on a GPU if there is one; with --numpy, numpy makes steps of some
150 ms. The sides take turns: eight steps without a save, then a save, and steps until it is whole, four at least. In
the first turn, which does not count, what was saved is verified. Nothing is flushed. `stood`: seconds in the call;
`steps`: those beside the save against the median of those before it, median and highest; `costs`: the seconds by which
the call and the steps beside it took longer than so many steps alone. Figures are medians, with the lowest and highest
behind them. --cpus: as many as taskset would leave. By torchrun, each rank trains on its GPU under DDP, and saves to a
folder of its own; torch's save is left out.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import time
import warnings
from pathlib import Path

import penstock
from penstock import checkpoint
from penstock.checkpoint import governing, leftovers, staging, states, storing
from penstock.progress import Progress
from turns import figure, machine, there_and_back

QUIET, BESIDE_MIN, BESIDE_MAX = 8, 4, 400
RANK, RANKS = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
SWITCH_S = 0.0005  # Python's threads change ten times as often as they do by default.


class Training:
    """Transformer blocks under AdamW."""

    def __init__(self, said):
        import torch
        from torch import nn

        class Block(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
                self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
                self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

            def forward(self, x):
                batch, length, width = x.shape
                q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, -1, 128).permute(2, 0, 3, 1, 4)
                seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
                return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))

        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        if RANKS > 1:
            if self.device == "cuda":
                torch.cuda.set_device(RANK)
            torch.distributed.init_process_group("cpu:gloo,cuda:nccl" if self.device == "cuda" else "gloo")
        dtype = torch.bfloat16 if self.device == "cuda" else torch.float32
        self.net = nn.Sequential(*[Block(said.width) for _ in range(said.layers)]).to(self.device, dtype)
        if RANKS > 1:
            self.net = nn.parallel.DistributedDataParallel(self.net)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-5)
        self.batch = torch.randn(said.batch, said.seq, said.width, device=self.device, dtype=dtype)
        self.name = torch.cuda.get_device_name() if self.device == "cuda" else "no GPU"
        self._settle = torch.cuda.synchronize if self.device == "cuda" else lambda: None

    def step(self, saver=None):
        self.net(self.batch).float().pow(2).mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._settle()

    def state(self):
        found = {f"model.{name}": each.detach() for name, each in self.net.state_dict().items()}
        for i, state in enumerate(self.optimizer.state.values()):
            found.update({f"optimizer.{i}.{name}": each for name, each in state.items() if hasattr(each, "nbytes")})
        return found

    until_update = ()

    @staticmethod
    def any_rank(is_so):
        """True on each rank if it is so on one: all must make as many steps."""
        if RANKS == 1:
            return is_so
        import torch

        flag = torch.tensor(int(is_so))
        torch.distributed.all_reduce(flag)
        return bool(flag)


class Arrays:
    """Steps of numpy, each of which changes an eighth of its arrays."""

    def __init__(self, said):
        import numpy

        count = int(said.gb * 1e9) // 16 // 4
        self.arrays = {f"{i}": numpy.random.default_rng(i).random(count, numpy.float32) for i in range(16)}
        self.matrix = numpy.ones((1024, 1024), numpy.float32)
        self.name, self.products, self.steps = "no GPU", 1, 0
        for _ in range(4):  # Makes a step as long as it shall be.
            began = time.perf_counter()
            self.step()
            self.products = max(1, round(self.products * 0.15 / (time.perf_counter() - began)))

    def step(self, saver=None):
        for _ in range(self.products):
            self.matrix @ self.matrix
        if saver is not None:
            saver.before_update()
        for i in (0, 8):
            self.arrays[f"{(self.steps + i) % 16}"] *= 0.999
        self.steps += 1

    def state(self):
        return dict(self.arrays)

    @property
    def until_update(self):
        return self.arrays

    @staticmethod
    def any_rank(is_so):
        return is_so


class Unwritten:
    """A save that ends when all is copied."""

    def __init__(self, tree, tensors, folder, *sources, **options):
        folder.mkdir(parents=True)

    def write(self):
        """It writes nothing."""

    def finish(self):
        return Progress(0)


class BySaver:
    def __init__(self, training, staging, budget=0.0, writers=0, switch_s=sys.getswitchinterval(), writes=True,
                 slower=governing.SLOWER):
        total = sum(each.nbytes for each in training.state().values())
        more = {"device_budget_mib": int(budget * total) >> 20} if budget else {}
        self.saver = checkpoint.Saver(staging, durable=False, **more)
        self.training, self.writers, self.switch_s = training, writers, switch_s
        self.kind, self.slower = states.Save if writes else Unwritten, slower

    def save(self, folder):
        staging.writers_beside = lambda: self.writers or storing.writers_beside()
        staging.Save, governing.SLOWER = self.kind, self.slower
        sys.setswitchinterval(self.switch_s)
        return self.saver.save(self.training.state(), folder, until_update=self.training.until_update)

    def close(self):
        self.saver.close()


class ByTorch:
    saver = None

    def __init__(self, training):
        import torch.distributed as dist
        import torch.distributed.checkpoint as dcp

        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29511")
        if not dist.is_initialized():
            dist.init_process_group("cpu:gloo,cuda:nccl" if training.device == "cuda" else "gloo", rank=0, world_size=1)
        self.dcp, self.training = dcp, training

    def save(self, folder):
        writer = self.dcp.FileSystemWriter(folder, overwrite=True, sync_files=False)
        return self.dcp.async_save(self.training.state(), storage_writer=writer)

    def close(self):
        """It keeps nothing."""


class Nothing:
    """A save that is none, to show by how much steps differ by themselves: it ends after as long as others write."""

    saver = None
    SECONDS = 1.2

    def __init__(self, training):
        """It keeps nothing."""

    def save(self, folder):
        folder.mkdir(parents=True)
        self.ends = time.perf_counter() + self.SECONDS
        return self

    def done(self):
        return time.perf_counter() >= self.ends

    def result(self):
        """It has no error."""

    def close(self):
        """It keeps nothing."""


SIDES = {
    "nothing": Nothing,
    "torch async_save": ByTorch,
    "staged": lambda training: BySaver(training, "staged"),
    "windowed": lambda training: BySaver(training, "windowed"),
    "overlapped": lambda training: BySaver(training, "overlapped"),
    "overlapped, 40 %": lambda training: BySaver(training, "overlapped", 0.4),
    "staged, no way given": lambda training: BySaver(training, "staged", slower=float("inf")),
    "staged, no way given, 2 writers": lambda training: BySaver(training, "staged", 0, 2, slower=float("inf")),
    # Why steps are slower: nothing is written, a thread a file writes, and Python's lock changes hands sooner.
    "overlapped, unwritten": lambda training: BySaver(training, "overlapped", writes=False),
    "40 %, unwritten": lambda training: BySaver(training, "overlapped", 0.4, writes=False),
    "40 %, all writers": lambda training: BySaver(training, "overlapped", 0.4, storing.FILES_MAX),
    "40 %, short turns": lambda training: BySaver(training, "overlapped", 0.4, switch_s=SWITCH_S),
}
USUAL = ["nothing", "torch async_save", "staged", "windowed", "overlapped", "overlapped, 40 %"]
BY_RANKS = ["nothing", "staged", "overlapped", "overlapped, 40 %"]


def timed(training, saver=None):
    began = time.perf_counter()
    training.step(saver)
    return time.perf_counter() - began


def turn(training, side, folder, verifies):
    """One save with steps before and beside it."""
    leftovers.wait_for_removals()
    os.sync()
    alone = [timed(training, side.saver) for _ in range(QUIET)]
    cpu, began = time.process_time(), time.perf_counter()
    saving = side.save(folder)
    stood = time.perf_counter() - began
    beside = []
    while training.any_rank(not saving.done() or len(beside) < BESIDE_MIN) and len(beside) < BESIDE_MAX:
        beside.append((timed(training, side.saver), time.perf_counter() - began))
        whole = None if not saving.done() else whole if len(beside) > 1 and whole else beside[-1][1]
    saving.result()
    whole = whole or time.perf_counter() - began
    cpu = time.process_time() - cpu
    if verifies and getattr(side, "kind", None) is states.Save:
        checkpoint.verify(folder)
    shutil.rmtree(folder)
    step = statistics.median(alone)
    seconds = [each for each, _ in beside]
    return {"step_s": step, "stood_s": stood, "stopped_s": getattr(saving, "stopped_s", None),
            "steps": [each / step for each in seconds], "cost_s": stood + sum(seconds) - len(seconds) * step,
            "whole_s": whole, "cpu_s": cpu}


def line_of(side, turns):
    steps = [each for one in turns for each in one["steps"]]
    name = side if RANKS == 1 else f"rank {RANK}, {side}"
    return (f"{name:20} step {1e3 * statistics.median(one['step_s'] for one in turns):.0f} ms; stood "
            f"{figure([one['stood_s'] for one in turns], ' s', 3)}; steps {statistics.median(steps):.3f}, "
            f"{max(steps):.3f} ({len(steps) // len(turns)}); costs {figure([one['cost_s'] for one in turns], ' s', 3)};"
            f" whole after {figure([one['whole_s'] for one in turns], ' s')}; CPU "
            f"{figure([one['cpu_s'] for one in turns], ' s', 1)}")


def measured(training, names, base, pairs):
    """A side that fails says so, and the others go on."""
    sides = {name: SIDES[name](training) for name in names}
    turns, failed = {name: [] for name in names}, {}
    for number, name in there_and_back(names, pairs + 1):
        if name in failed:
            continue
        print(f"turn {number} of {pairs}: {name}", file=sys.stderr, flush=True)
        try:
            one = turn(training, sides[name], base / name.replace(" ", "-"), number == 0)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {str(error)[:300]}"
            print(f"{name:20} failed: {failed[name]}", flush=True)
            continue
        if number > 0:
            turns[name].append(one)
    for side in sides.values():
        side.close()
    return {name: each for name, each in turns.items() if each}, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for name, value in {"layers": 8, "width": 4096, "batch": 4, "seq": 2048, "pairs": 4, "cpus": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--numpy", action="store_true")
    parser.add_argument("--gb", type=float, default=1)
    parser.add_argument("--sides", help=f"of: {', '.join(SIDES)}, separated by ';'")
    parser.add_argument("--json", type=Path)
    said = parser.parse_args()
    warnings.simplefilter("ignore")
    if said.cpus:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:said.cpus])
    training = Arrays(said) if said.numpy else Training(said)
    for _ in range(6):
        training.step()
    usual = ["staged", "overlapped"] if said.numpy else USUAL if RANKS == 1 else BY_RANKS
    names = said.sides.split(";") if said.sides else usual
    total = sum(each.nbytes for each in training.state().values())
    facts = (f"{machine(training.name)}, {len(os.sched_getaffinity(0))} of them used, penstock {penstock.__version__}: "
             f"{total / 1e9:.2f} GB")
    print(facts, flush=True)
    base = said.folder / f"penstock-bench-interference{RANK or ''}"
    base.mkdir(parents=True)
    try:
        turns, failed = measured(training, names, base, said.pairs)
    finally:
        shutil.rmtree(base)
    for side, each in turns.items():
        print(line_of(side, each), flush=True)
    if said.json:
        said.json.write_text(json.dumps({"facts": facts, "nbytes": total, "turns": turns, "failed": failed}, indent=1))


if __name__ == "__main__":
    main()
