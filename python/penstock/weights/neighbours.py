# SPDX-License-Identifier: Apache-2.0

"""Tensors that are asked for one by one, read together with their neighbours in the file where these will be asked for,
too."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from penstock.progress import Progress
from penstock.sessions import Session
from penstock.threads import Future, Pool
from penstock.weights.headers import Weights
from penstock.weights.runs import AHEAD, RUN_BYTES

Tensors = dict[str, Any]


class _Group:
    """Tensors up to `end`, in the order of the file, that are read together."""

    def __init__(self, end: int, tensors: Future[Tensors]) -> None:
        self.end, self.tensors = end, tensors


class Neighbours:
    """Reads groups of tensors of a safetensors file.

    A tensor begins a group if the one before it in the file was asked for, too. No more bytes are read unasked than
    were asked for: who wants a few tensors of a large file reads at most twice as much. `reads_at_once`: all will be
    asked for.
    """

    def __init__(self, weights: Weights, device: Any, framework: str, session: Session | None,
                 count: Callable[[Progress], None], reads_at_once: bool) -> None:
        assert weights.header is not None
        self._weights, self._header = weights, weights.header
        self._device, self._framework, self._session, self._count = device, framework, session, count
        self._reads_at_once = reads_at_once
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._is_over = False
        self._is_asked = bytearray(len(self._header))
        self._bytes_asked = self._bytes_ahead = 0  # The latter are read, or being read, and not asked for yet.
        self._groups: dict[int, _Group] = {}       # By the place of a tensor that was not asked for yet.
        self._threads: Pool | None = None

    def take(self, name: str) -> Any:
        """None if the tensor is to be read alone: its neighbours are not wanted, or they could not be read together."""
        if os.getpid() != self._process:
            return None  # The threads are the parent's.
        tensors = self._group_of(self._header.find(name))
        found = None
        if tensors is not None:
            with suppress(CancelledError):
                found = tensors.result().pop(name, None)
        if found is not None and _is_cuda(self._device):
            import torch

            found.record_stream(torch.cuda.current_stream(self._device))
        return found

    def close(self) -> None:
        with self._lock:
            self._is_over = True
            threads, self._threads = self._threads, None
            self._groups.clear()
        if threads is not None:
            threads.shutdown(cancel_futures=True)

    def _group_of(self, place: int) -> Future[Tensors] | None:
        with self._lock:
            if self._is_over or self._is_asked[place]:
                return None
            self._is_asked[place] = True
            self._bytes_asked += self._bytes_of(place)
            group = self._groups.pop(place, None)
            if group is not None:
                self._bytes_ahead -= self._bytes_of(place)
            elif self._reads_at_once or (place > 0 and self._is_asked[place - 1]):
                group = self._begin(place, place + 1)
            if group is None:
                return None
            last: _Group | None = group
            while last is not None:
                while last.end in self._groups:
                    last = self._groups[last.end]
                last = self._begin(last.end, last.end)
            return group.tensors

    def _begin(self, begin: int, end: int) -> _Group | None:
        """Begins to read the tensors from `begin` to `end`, which are asked for, and further ones, if there is room."""
        most = AHEAD * RUN_BYTES if self._reads_at_once else min(self._bytes_asked, AHEAD * RUN_BYTES)
        room, total, first = most - self._bytes_ahead, 0, end
        if self._reads_at_once and begin < end:
            room = RUN_BYTES
        if 2 * room < min(most, RUN_BYTES):
            return None  # So that requests are large.
        while end < len(self._is_asked) and not self._is_asked[end] and end not in self._groups:
            total += self._bytes_of(end)
            if total > (room if end == begin else min(room, RUN_BYTES)):
                total -= self._bytes_of(end)
                break
            end += 1
        if end == first:
            return None
        self._bytes_ahead += total
        self._threads = self._threads or Pool(AHEAD)
        group = _Group(end, self._threads.submit(self._read, begin, end, _current_stream(self._device)))
        self._groups.update(dict.fromkeys(range(first, end), group))
        return group

    def _bytes_of(self, place: int) -> int:
        *_, begin, end = self._header.described(place)
        return end - begin

    def _read(self, begin: int, end: int, stream: AbstractContextManager[Any]) -> Tensors:
        """No tensor after a failure: each is read alone then, which needs less memory, and tells what is wrong."""
        try:
            with stream:
                plan = self._weights.plan_of_neighbours(begin, end, self._device, self._session, self._framework)
                tensors = _apart(plan.load(), self._device)
        except Exception:
            self._is_over = True
            return {}
        self._count(plan.progress)
        return tensors


def _is_cuda(device: Any) -> bool:
    return getattr(device, "type", None) == "cuda"


def _current_stream(device: Any) -> AbstractContextManager[Any]:
    """Enters the current stream of the thread that calls this, in another thread: its memory is of that stream."""
    if not _is_cuda(device):
        return nullcontext()
    import torch

    return torch.cuda.stream(torch.cuda.current_stream(device))


def _apart(tensors: Tensors, device: Any) -> Tensors:
    """Tensors that do not keep each other's memory, where copies take no time: on a GPU."""
    if not _is_cuda(device):
        return tensors
    import torch

    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    torch.cuda.current_stream(device).synchronize()  # Who takes one may be on another stream.
    return copies
