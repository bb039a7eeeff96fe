# SPDX-License-Identifier: Apache-2.0

"""Ranks that load a model together: each reads a share of what several of them want, and they exchange the shares.

Every rank makes the same plan but for its parts, and iterates over it to the end. A rank that fails, or leaves, says so
before the next exchange: then all of them raise, and none waits for ever. One that is killed is noticed by the group's
own time limit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.weights.headers import WeightsError

if TYPE_CHECKING:
    from penstock.weights.plan import Run

_FINE, _FAILED = 0, 1


class Exchange:
    """group: of torch.distributed, whose backend serves the device (NCCL for GPUs, gloo for the CPU)."""

    def __init__(self, group: Any, device: Any) -> None:
        import torch
        import torch.distributed

        self._group, self._device = group, torch.device(device)
        self.rank = torch.distributed.get_rank(group)
        self.world = torch.distributed.get_world_size(group)
        self._left = 0  # Exchanges that are still to come.

    def agree(self, runs: Iterable[Run], problem: str | None) -> None:
        """Raises on every rank where one has a problem, or where they would exchange different things."""
        import torch.distributed

        together = [run for run in runs if run.is_together]
        said: list[Any] = [None] * self.world
        torch.distributed.all_gather_object(said, (_digest(together), problem), self._group)
        for rank, (_, theirs) in enumerate(said):
            if theirs is not None and rank != self.rank:
                raise WeightsError(f"rank {rank} of the group cannot load: {theirs}")
        if any(digest != said[0][0] for digest, _ in said):
            raise WeightsError("the ranks of the group want different tensors: each must plan the same names, files "
                               "and budget, and parts of the same dimensions")
        self._left = len(together) if problem is None else 0

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """What must succeed on every rank before they exchange. Raises on each where it failed on one."""
        try:
            yield
        except BaseException:
            self.leave()
            raise
        self._left -= 1
        failed = [rank for rank, status in enumerate(self._tell(_FINE)) if status != _FINE]
        if failed:
            self._left = 0
            raise WeightsError(f"{what}: rank {failed[0]} of the group failed or left before its share was there")

    def gather(self, memory: Any) -> None:
        """The memory has as many bytes for each rank; this one's are there already."""
        share = memory.numel() // self.world
        _all_gather(memory, memory[self.rank * share:(self.rank + 1) * share], self._group)

    def leave(self) -> None:
        """Tells the others that this rank exchanges nothing any more. Does nothing at the end."""
        if self._left > 0:
            self._left = 0
            self._tell(_FAILED)

    def _tell(self, status: int) -> list[int]:
        import torch

        said = torch.empty(self.world, dtype=torch.int32, device=self._device)
        own = torch.tensor([status], dtype=torch.int32, device=self._device)
        try:
            _all_gather(said, own, self._group)
        except BaseException:
            self._left = 0  # The group is broken: nobody is left to be told.
            raise
        return [int(each) for each in said.tolist()]


def _all_gather(all_ranks: Any, own: Any, group: Any) -> None:
    from torch import distributed

    # The first is what torch calls it from 2.13 on.
    gather = getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor
    gather(all_ranks, own, group)


def _digest(runs: Iterable[Run]) -> str:
    digest = hashlib.sha256()
    for run in runs:
        digest.update(f"{run.begin} {run.end}\n".encode())
        for item in run.items:
            digest.update(f"{item.tensor.name} {item.begin} {item.end}\n".encode())
    return digest.hexdigest()
