#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Saves of what changed beside saves of all: adapters of LoRA over frozen weights, and a state that changes whole.

    changes.py FOLDER [--device cuda] [--gib 8] [--staging staged] [--pairs 5] [--durable]

Layers of 4096 by 4096 in bfloat16, each with an adapter of rank 16 and its two moments in float32. In "lora" the
adapters and moments change between two saves, in "all" everything does. The sides take turns, each saves to a root of
its own, where the last two stay; the first save of each does not count. Of a save is told how long the trainer stood,
when all was whole, how many bytes were written, and these by the bytes that changed. Medians, with the lowest and
highest behind them.
"""

import argparse
import shutil
import statistics
import time
from pathlib import Path

import torch

from penstock import checkpoint
from penstock.checkpoint import leftovers
from turns import figure, machine, there_and_back

WIDTH, RANK = 4096, 16


def state_of(total, device):
    """The frozen weights and what is trained."""
    layers = max(1, total // (2 * WIDTH * WIDTH))
    frozen = {f"layer.{i}": torch.randn(WIDTH, WIDTH, device=device, dtype=torch.bfloat16) for i in range(layers)}
    trained = {f"{what}.{i}.{side}": torch.randn(RANK, WIDTH, device=device)
               for what in ("adapter", "mean", "square") for i in range(layers) for side in "ab"}
    return frozen, trained


def settle():
    leftovers.wait_for_removals()
    torch.cuda.synchronize() if torch.cuda.is_available() else None


class Side:
    """Saves to a folder of its own."""

    def __init__(self, root, said, changed_only):
        self._root, self._count = root, 0
        self._saver = checkpoint.Saver(said.staging, durable=said.durable, changed_only=changed_only)
        self.stood, self.whole, self.written, self.links = [], [], [], None

    def save(self, state, counts):
        settle()
        began = time.perf_counter()
        self._saver.save(state, self._root / f"step-{self._count}").result()
        whole = time.perf_counter() - began
        report = self._saver.report()
        self.links = report.links
        self._count += 1
        checkpoint.retain(self._root, 2)
        if counts:
            self.stood.append(report.stood_s)
            self.whole.append(whole)
            self.written.append(report.written_bytes)

    def close(self):
        self._saver.close()
        shutil.rmtree(self._root)


def compare(what, state, changing, said):
    total, changed = (sum(each.nbytes for each in tensors.values()) for tensors in (state, changing))
    sides = {name: Side(said.folder / f"penstock-bench-{what}-{name}", said, name == "changed_only")
             for name in ("all", "changed_only")}
    try:
        for number, name in there_and_back(sides, said.pairs + 1):
            for tensor in changing.values():
                tensor.add_(1)
            sides[name].save(state, number > 0)
        print(f"{what}: {total / 1e9:.3f} GB, of which {changed / 1e6:.1f} MB change")
        for name, side in sides.items():
            written = statistics.median(side.written)
            print(f"{what}: {name:12} stood {figure(side.stood, ' s')}, whole after {figure(side.whole, ' s')}, "
                  f"{written / 1e6:.1f} MB written, {written / changed:.3f} of what changed; {side.links or 'all'}",
                  flush=True)
        whole = [one / other for one, other in zip(sides["changed_only"].whole, sides["all"].whole, strict=True)]
        print(f"{what}: changed_only / all: whole after {figure(whole)}", flush=True)
    finally:
        for side in sides.values():
            side.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--gib", type=float, default=8)
    parser.add_argument("--staging", default="staged")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--durable", action="store_true")
    said = parser.parse_args()
    said.folder.mkdir(parents=True, exist_ok=True)
    frozen, trained = state_of(int(said.gib * 2**30), said.device)
    gpu = torch.cuda.get_device_name() if said.device != "cpu" else "no GPU"
    print(f"{machine(gpu)}: {said.staging}, {'durable' if said.durable else 'not flushed'}")
    compare("lora", {**frozen, **trained}, trained, said)
    compare("all", {**frozen, **trained}, {**frozen, **trained}, said)


if __name__ == "__main__":
    main()
