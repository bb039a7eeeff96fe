# SPDX-License-Identifier: Apache-2.0

"""Ranks that load a model together: each reads a share of the tensors that several need, and they exchange the shares.

All make their plans at the same time, and iterate to the end. A rank that fails or leaves announces it before the next
exchange: then all of them raise, and none waits for ever. That a rank of this host was killed while they load, the
others see by its process; a rank elsewhere, or one that never starts loading, is detected by the group's own time
limit.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.weights.processes import Processes
from penstock.weights.runs import Share, is_shared, share_alone
from penstock.weights.tensors import Part, Tensor, WeightsError, named

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
        self._is_asked = False
        self._others = Processes()

    @contextmanager
    def planning(self) -> Iterator[None]:
        """What fails before this rank has told what it wants fails on every rank."""
        try:
            yield
        except Exception as error:
            if not self._is_asked:
                self._ask(None, f"{type(error).__name__}: {error}")
            raise

    def shares(self, own: list[tuple[Tensor, Part | None]], tensors: Mapping[str, Tensor]) -> Iterator[Share]:
        """What this rank does, if it wants its `own` of all the tensors, and each other rank what it says."""
        mine = {tensor.name: part for tensor, part in own}
        wanted: dict[str, list[Part | None]] = {}
        for theirs in self._ask(mine, None):
            for name, part in theirs.items():
                wanted.setdefault(name, []).append(part)
        for name, tensor in tensors.items():
            parts = wanted.get(name, [])
            if is_shared(tensor, parts):
                is_cut = len(parts) < self.world or any(part is not None for part in parts)
                yield Share(tensor, mine.get(name), is_cut, True, name in mine)
            elif name in mine:
                yield share_alone(tensor, mine[name])

    def _ask(self, mine: Mapping[str, Part | None] | None, problem: str | None) -> list[Mapping[str, Part | None]]:
        """What each rank wants, by name. Raises on every rank if one has a problem."""
        self._is_asked = True
        names, parts = list(mine or ()), list((mine or {}).values())
        said = self._all((hashlib.sha256("\0".join(names).encode()).digest(), parts, problem, self._others.own))
        _raise_problem(self.rank, [theirs for _, _, theirs, _ in said], "cannot plan")
        if problem is not None:
            return []
        self._others.watch({rank: process for rank, (*_, process) in enumerate(said) if rank != self.rank})
        # Most often all ranks want the same tensors.
        is_alike = len({digest for digest, *_ in said}) == 1
        named = [names] * self.world if is_alike else self._all(names)
        return [dict(zip(each, parts, strict=True)) for each, (_, parts, *_) in zip(named, said, strict=True)]

    def _all(self, own: Any) -> list[Any]:
        """What each rank says."""
        import torch.distributed

        said: list[Any] = [None] * self.world
        with named("the ranks that load together"):
            torch.distributed.all_gather_object(said, own, self.group)
        return said

    def wait(self, work: Any) -> None:
        """Waits for what all ranks do. Raises WeightsError if that fails, or one has ended."""
        try:
            with named("the ranks that load together"):
                self._others.wait(work.is_completed)
                work.wait()
        except Exception:  # And not Ctrl-C, which says nothing of the group.
            # NCCL's kernels would wait for ever, and whoever waits for the stream for them.
            with suppress(Exception):
                self.group.abort()
            raise

    def agree(self, plan: Plan, problem: str | None) -> Turn:
        """Raises on every rank if one has a problem, or if their exchanges would not match."""
        together = [run for run in plan.runs if run.is_together]
        turn = None
        try:
            turn = Turn(self, len(together))
        except Exception as error:  # For instance an error of the device: the others must not wait for this rank.
            problem = problem or f"{type(error).__name__}: {error}"
        own = (_digest(plan, together), platform.node(), _identities(together, plan.identities), problem)
        said = self._all(own)
        _raise_problem(-1 if turn is None else self.rank, [problem for *_, problem in said], "cannot load")
        if any(digest != own[0] for digest, _, _, _ in said):
            raise WeightsError("the ranks of the group do not read alike: each must plan with the same files, device "
                               "and budget")
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
        work = _all_gather(memory, own, self._exchange.group)
        try:
            # The stream waits, and not the host. Behind the last one nothing follows by which the host would see that
            # a rank has ended.
            if self._exchange.device.type == "cpu" or self.left == 0:
                self._exchange.wait(work)
            else:
                work.wait()
        except BaseException:
            self.left = 0  # The group is broken: there is nobody to notify.
            raise

    def leave(self) -> None:
        """Tells the others that this rank leaves. Does nothing at the end of the iteration, or in a forked child, to
        which the group does not belong."""
        if self.left > 0 and os.getpid() == self._pid and not sys.is_finalizing():
            self.left = 0
            self._tell(_FAILED)

    def _tell(self, status: int) -> list[int]:
        try:
            self._exchange.wait(_all_gather(self._said, self._own[status], self._exchange.group))
        except BaseException:
            self.left = 0  # The group is broken: there is nobody to notify.
            raise
        return [int(each) for each in self._said.tolist()]


def _raise_problem(own_rank: int, problems: Iterable[str | None], what: str) -> None:
    """Of other ranks; this one raises its own."""
    for rank, problem in enumerate(problems):
        if problem is not None and rank != own_rank:
            raise WeightsError(f"rank {rank} of the group {what}: {problem}")


def _all_gather(all_ranks: Any, own: Any, group: Any) -> Any:
    from torch import distributed

    # The first name is from torch 2.13 on.
    gather = getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor
    return gather(all_ranks, own, group, async_op=True)


def _digest(plan: Plan, runs: Iterable[Run]) -> str:
    digest = hashlib.sha256(plan.device.type.encode())
    for run in runs:
        digest.update(f"{run.file.name!r} {plan.identities[run.file][2]} {run.begin} {run.end}\n".encode())
    return digest.hexdigest()


def _identities(runs: Iterable[Run], known: Mapping[Path, tuple[int, int, int, int]]) -> list[tuple[int, ...]]:
    """Inode, size and change time, without the device, which containers may number differently."""
    return [known[file][1:] for file in dict.fromkeys(run.file for run in runs)]
