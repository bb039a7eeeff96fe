# SPDX-License-Identifier: Apache-2.0

"""Ranks that load a model together: each reads a share of the tensors that several need, and they exchange the shares.

Every rank makes the same plan, except for its parts, and iterates over it to the end. A rank that fails or leaves
announces it before the next exchange: then all of them raise, and none waits for ever. A rank that is killed, or never
starts loading, is detected by the group's own time limit.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.weights.tensors import WeightsError

if TYPE_CHECKING:
    from penstock.weights.plan import Plan
    from penstock.weights.runs import Run

_FINE, _FAILED = 0, 1


class Exchange:
    """group: of torch.distributed, whose backend serves the device (NCCL for GPUs, gloo for the CPU)."""

    def __init__(self, group: Any, device: Any) -> None:
        import torch
        import torch.distributed

        self.group, self.device = group, torch.device(device)
        self.rank = torch.distributed.get_rank(group)
        self.world = torch.distributed.get_world_size(group)

    def agree(self, plan: Plan, problem: str | None) -> Turn:
        """Raises on every rank if one has a problem, or if their exchanges would not match."""
        import torch
        import torch.distributed

        together = [run for run in plan.runs if run.is_together]
        said: list[Any] = [None] * self.world
        turn = None
        try:
            turn = Turn(self, len(together))
        except Exception as error:  # For instance an error of the device: the others must not wait for this rank.
            problem = problem or f"{type(error).__name__}: {error}"
        own = (_digest(plan, together), platform.node(), _identities(together, plan.identities), problem)
        torch.distributed.all_gather_object(said, own, self.group)
        for rank, (_, _, _, theirs) in enumerate(said):
            if theirs is not None and (rank != self.rank or turn is None):
                raise WeightsError(f"rank {rank} of the group cannot load: {theirs}")
        if any(digest != own[0] for digest, _, _, _ in said):
            raise WeightsError("the ranks of the group want different tensors: each must plan the same names, files, "
                               "dtype, device and budget, and parts of the same dimensions")
        for rank, (_, host, identities, _) in enumerate(said):
            # Other hosts have their own copies, of which only sizes and layout can be compared.
            if host == own[1] and identities != own[2]:
                raise WeightsError(f"rank {rank} of the group has other files than rank {self.rank}, by inode or time "
                                   "of change: load the same ones")
        assert turn is not None
        if problem is not None:
            turn.left = 0
        return turn


class Turn:
    """The exchanges of one iteration over a plan."""

    def __init__(self, exchange: Exchange, left: int) -> None:
        import torch

        self._exchange, self._pid, self.left = exchange, os.getpid(), left
        self._said = torch.empty(exchange.world, dtype=torch.int32, device=exchange.device)
        self._own = [torch.tensor([status], dtype=torch.int32, device=exchange.device) for status in (_FINE, _FAILED)]

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """A step that must succeed on every rank before an exchange. Raises on all ranks if it fails on one."""
        try:
            yield
        except BaseException:
            self.leave()
            raise
        self.left -= 1
        failed = [rank for rank, status in enumerate(self._tell(_FINE)) if status != _FINE]
        if failed:
            self.left = 0
            raise WeightsError(f"{what}: rank {failed[0]} of the group failed or left before its share was there")

    def gather(self, memory: Any) -> None:
        """Gathers equal shares of the memory from all ranks; this rank's share is there already."""
        share = memory.numel() // self._exchange.world
        own = memory[self._exchange.rank * share:(self._exchange.rank + 1) * share]
        _all_gather(memory, own, self._exchange.group)

    def leave(self) -> None:
        """Tells the others that this rank leaves. Does nothing at the end of the iteration, or in a forked child, to
        which the group does not belong."""
        if self.left > 0 and os.getpid() == self._pid and not sys.is_finalizing():
            self.left = 0
            self._tell(_FAILED)

    def _tell(self, status: int) -> list[int]:
        try:
            _all_gather(self._said, self._own[status], self._exchange.group)
        except BaseException:
            self.left = 0  # The group is broken: there is nobody to notify.
            raise
        return [int(each) for each in self._said.tolist()]


def _all_gather(all_ranks: Any, own: Any, group: Any) -> None:
    from torch import distributed

    # The first name is from torch 2.13 on.
    gather = getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor
    gather(all_ranks, own, group)


def _digest(plan: Plan, runs: Iterable[Run]) -> str:
    digest = hashlib.sha256(f"{plan.device.type} {plan.dtype}\n".encode())
    for run in runs:
        digest.update(f"{run.file.name!r} {plan.identities[run.file][2]} {run.begin} {run.end}\n".encode())
        for item in run.items:
            tensor = item.tensor
            digest.update(f"{tensor.name!r} {tensor.dtype} {tensor.shape} {item.begin} {item.end}\n".encode())
    return digest.hexdigest()


def _identities(runs: Iterable[Run], known: Mapping[Path, tuple[int, int, int, int]]) -> list[tuple[int, ...]]:
    """Inode, size and change time, without the device, which containers may number differently."""
    return [known[file][1:] for file in dict.fromkeys(run.file for run in runs)]
