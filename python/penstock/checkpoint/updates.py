# SPDX-License-Identifier: Apache-2.0

"""Memory that changes in updates alone, from one optimizer's step to the next: its parameters and its state."""

from __future__ import annotations

import sys
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from penstock.checkpoint.lanes import Owners

DEPTH_MAX = 20
NAMED = 0  # The owner of memory that a caller named; those of optimizers are their ids.

# The first address, and the one behind the last byte. The driver gives no two memories of a process the same address.
Range = tuple[int, int]


def tensors_in(found: Any, depth: int = 0) -> Iterator[Any]:
    """All tensors and arrays in dicts, lists, and whatever can be iterated."""
    if depth > DEPTH_MAX or isinstance(found, (str, bytes)):
        return
    if hasattr(found, "shape") and hasattr(found, "dtype"):
        yield found
    elif isinstance(found, Mapping):
        for each in found.values():
            yield from tensors_in(each, depth + 1)
    elif isinstance(found, Iterable):
        for each in found:
            yield from tensors_in(each, depth + 1)


def range_of(tensor: Any) -> Range | None:
    """The memory from its first to its last element; that of a DTensor's local part. None for no memory that can be
    told."""
    tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    if not hasattr(tensor, "data_ptr"):
        return _range_of_array(tensor)
    if tensor.numel() == 0 or tensor.layout is not sys.modules["torch"].strided:
        return None
    try:
        begin = tensor.data_ptr()
    except RuntimeError:  # A subclass that wraps other tensors.
        return None
    if tensor.is_contiguous():
        return begin, begin + tensor.nbytes
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return begin, begin + (last + 1) * tensor.element_size()


def _range_of_array(array: Any) -> Range | None:
    facts = getattr(array, "__array_interface__", None)
    if facts is None or array.nbytes == 0 or any(stride < 0 for stride in array.strides):
        return None
    begin = facts["data"][0]
    last = sum((size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True))
    return begin, begin + last + array.itemsize


class Held:
    """Which memory changes in whose updates only."""

    def __init__(self, optimizers: Iterable[Any], named: Any = ()) -> None:
        ends: list[tuple[int, int, int]] = []  # Address, +1 or -1, owner.
        for owner, tensors in [*((id(each), _of_optimizer(each)) for each in optimizers), (NAMED, tensors_in(named))]:
            for begin, end in filter(None, map(range_of, tensors)):
                ends += (begin, 1, owner), (end, -1, owner)
        self._begins, self._owners = _parts(sorted(ends))

    def owners(self, tensor: Any) -> Owners:
        """Whose updates change it; nobody's if any byte of it may change elsewhere, too."""
        found = range_of(tensor)
        if found is None:
            return frozenset()
        begin, end = found
        begins, owners = self._begins, self._owners
        at = bisect_right(begins, begin) - 1
        if at < 0:
            return frozenset()
        all_owners: Owners = frozenset()
        while begins[at] < end:
            if not owners[at]:
                return frozenset()
            all_owners |= owners[at]
            at += 1
        return all_owners


def _of_optimizer(optimizer: Any) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]
    yield from tensors_in(optimizer.state)


def _parts(ends: list[tuple[int, int, int]]) -> tuple[list[int], list[Owners]]:
    """Cuts addresses where an owner's memory begins or ends. The last part has no owner."""
    begins: list[int] = []
    owners: list[Owners] = []
    counts: dict[int, int] = {}
    for address, change, owner in ends:
        counts[owner] = counts.get(owner, 0) + change
        if counts[owner] == 0:
            del counts[owner]
        now = frozenset(counts)
        if begins and begins[-1] == address:
            owners[-1] = now
        else:
            begins.append(address)
            owners.append(now)
    return begins, owners


class Steps:
    """Tells of optimizers' steps before they happen, until close(). `known`: those that have stepped since it was made.
    `recorded`: those whose steps are in a CUDA graph, which tells nobody when it runs."""

    def __init__(self, torch: Any, before: Callable[[Any], None]) -> None:
        self.known: weakref.WeakSet[Any] = weakref.WeakSet()
        self.recorded: weakref.WeakSet[Any] = weakref.WeakSet()
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self._torch, self._before = torch, before
        hook = torch.compiler.disable(_hook_of(weakref.ref(self)))
        self.close = weakref.finalize(self, register_optimizer_step_pre_hook(hook).remove)

    def step(self, optimizer: Any) -> None:
        self.known.add(optimizer)
        cuda = self._torch.cuda
        if cuda.is_initialized() and cuda.is_current_stream_capturing():
            self.recorded.add(optimizer)
        else:
            self._before(optimizer)


def _hook_of(steps: weakref.ref[Steps]) -> Callable[..., None]:
    """Holds nothing: torch keeps it for as long as it is registered."""
    def hook(optimizer: Any, *_: Any) -> None:
        found = steps()
        if found is not None:
            found.step(optimizer)

    return hook
