# SPDX-License-Identifier: Apache-2.0

"""The reading of a plan: some ranges are under way while the tensors of others are handed out."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock import _native
from penstock.progress import Progress
from penstock.sessions import default_session
from penstock.weights.arrays import Memory
from penstock.weights.exchange import Turn
from penstock.weights.runs import AHEAD, PAGE, Item, Run, Whole, memory_of, share_of_run
from penstock.weights.tensors import WeightsError, named, raise_named
from penstock.weights.views import views_of

if TYPE_CHECKING:
    from penstock.weights.plan import Plan

log = logging.getLogger("penstock.weights")


class _Reading:
    """A run that is under way. It lies in memory as in its file: each byte at the same place of a page."""

    def __init__(self, run: Run, base: int, memory: Memory, begin: int, end: int, number: int | None) -> None:
        self.run, self.base, self.memory = run, base, memory
        self.begin, self.end = begin, end  # What is read here, in the file.
        self.number = number               # None where nothing is.


class Stream:
    """An iterator of (name, tensor). Close it where it is not iterated to its end: then the other ranks of a group are
    told, and what is under way is waited for. It is closed when it goes.

    is_kept: the caller keeps all tensors, which must fit.
    """

    def __init__(self, plan: Plan, on_progress: Callable[[Progress], None] | None, *, is_kept: bool) -> None:
        try:
            shortage = plan.shortage() if is_kept else None
            if shortage is not None:
                raise MemoryError(shortage)
            self._reader = _Reader(plan, on_progress)
        except Exception as error:
            if plan.exchange is not None:
                plan.exchange.agree(plan, f"{type(error).__name__}: {error}")
            raise
        if plan.exchange is not None:
            self._reader.turn = plan.exchange.agree(plan, None)
        self._tensors = self._reader.tensors()  # Which knows nothing of this, so that this goes when nobody has it.

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> tuple[str, Any]:
        return next(self._tensors)

    def begun(self) -> Generator[Iterable[tuple[str, Any]], None, None]:
        """The tensors of one run after the other; the first runs are under way."""
        self._reader.start()
        return self._reader.groups()

    def all(self) -> dict[str, Any]:
        """All that are left, by name."""
        found: dict[str, Any] = {}
        for group in self._reader.groups():
            found.update(group)
        return found

    def close(self) -> None:
        self._tensors.close()
        self._reader.end()  # One that never began has no end of its own.

    def __del__(self) -> None:
        if hasattr(self, "_tensors"):
            self.close()


class _Reader:
    def __init__(self, plan: Plan, on_progress: Callable[[Progress], None] | None) -> None:
        self._plan, self._on_progress = plan, on_progress
        self.turn: Turn | None = None
        session = plan.session or default_session()
        self._ranges = _native.Ranges(session._native, max(min(AHEAD, len(plan.runs)), 1))
        self._runs = iter(plan.runs)
        self._ahead: deque[_Reading] = deque()
        self._wholes: dict[str, tuple[Any, int]] = {}  # By name: the array, and the pieces that are not there yet.
        self._began = time.monotonic()
        self._progress = plan.progress = Progress(plan.bytes_from_storage)

    def tensors(self) -> Generator[tuple[str, Any], None, None]:
        for group in self.groups():
            yield from group

    def groups(self) -> Generator[Iterable[tuple[str, Any]], None, None]:
        """The tensors of one run after the other."""
        try:
            self.start()
            while self._ahead:
                reading = self._ahead.popleft()
                self._finish(reading)
                self.start()
                yield self._cut(reading)
                del reading
            log.info("loaded %s", self._plan)
        finally:
            self.end()

    def start(self) -> None:
        """Begins to read as many runs as may be under way."""
        self._ahead.extend(self._begin(run) for run in islice(self._runs, AHEAD - len(self._ahead)))

    def end(self) -> None:
        try:
            if self.turn is not None:
                self.turn.leave()
        finally:
            self._ranges.close()
            self._ahead.clear()

    def _begin(self, run: Run) -> _Reading:
        plan = self._plan
        base, nbytes = memory_of(run, plan.exchange)
        begin, end = share_of_run(run, plan.exchange)
        with named(f"{run.file}: memory for {nbytes} bytes of it on {plan.device}"):
            memory = plan.arrays.memory(nbytes, PAGE)
        reading = _Reading(run, base, memory, begin, end, None)
        if begin < end:
            reading.number = self._ranges.begin(os.fsencode(run.file), plan.identities[run.file],
                                                memory.bytes(begin - base, end - base), begin, plan.arrays.stream(),
                                                -1 if plan.held is None else plan.held.fd)
        return reading

    def _finish(self, reading: _Reading) -> None:
        if self.turn is None or not reading.run.is_together:
            self._wait(reading)
        else:
            with self.turn.attempt(str(reading.run.file)):
                self._wait(reading)
            self.turn.gather(reading.memory.bytes(0, reading.memory.nbytes))
        if self._on_progress is not None:
            self._on_progress(self._progress)

    def _wait(self, reading: _Reading) -> None:
        report = None
        if reading.number is not None:
            report = self._ranges.wait(reading.number)
            wanted, file = reading.end - reading.begin, reading.run.file
            if report is None:
                raise WeightsError(f"{file}: it was cut, changed or replaced after its header was read: open it anew")
            if report.bytes != wanted:
                raise WeightsError(f"{file}: it was cut while it was read: expected {wanted} bytes at "
                                   f"{reading.begin}, there were {report.bytes}")
        self._progress.count(report, time.monotonic() - self._began)

    def _cut(self, reading: _Reading) -> Iterable[tuple[str, Any]]:
        run = reading.run
        if run.pieces is None:
            return self._cut_items(reading)
        memory, device = reading.memory, self._plan.arrays.dlpack_device()
        assert device is not None  # Or the plan would have items.
        with named(f"{run.file}: tensors at {run.begin} to {run.end}"):
            views = views_of(memory.bytes(0, memory.nbytes), device, run.pieces, run.number, run.begin - reading.base)
        return zip(run.pieces.names(run.number), views)

    def _cut_items(self, reading: _Reading) -> Iterator[tuple[str, Any]]:
        for item in reading.run.items:
            try:
                complete = self._made(reading, item)
            except Exception as error:
                raise_named(error, f"{item.tensor.file}: tensor {item.tensor.name!r}")
            if complete is not None:
                yield complete

    def _made(self, reading: _Reading, item: Item) -> tuple[str, Any] | None:
        """The tensor of an item, or None where further pieces of it are to come."""
        plan, base, tensor = self._plan, reading.base, item.tensor
        arrays, dtype = plan.arrays, plan.arrays.dtype_of(tensor)
        if plan.check is not None and item.end - item.begin == tensor.nbytes:  # Of parts there is no checksum.
            plan.check(tensor, arrays.on_host(reading.memory.bytes(item.begin - base, item.end - base)))
        array = reading.memory.view(item.begin - base, dtype, item.rows, tensor.strides)
        if item.whole is not None:
            return self._place(item, item.whole, self._part(item, array), dtype)
        if item.part is not None:
            array = self._part(item, array)
        if arrays.is_converted(dtype, plan.dtype):
            array = arrays.convert(array, plan.dtype)
        elif not reading.run.is_kept:
            array = arrays.copy(array)  # So that the memory of what nobody wants can go.
        return tensor.name, array

    def _part(self, item: Item, array: Any) -> Any:
        if item.part is None:
            return array
        return self._plan.arrays.part(array, item.part.dim, item.part.start, item.part.stop)

    def _place(self, item: Item, whole: Whole, piece: Any, dtype: Any) -> tuple[str, Any] | None:
        """Puts a piece where it belongs. The tensor, if it was the last one."""
        name, arrays, wanted = whole.tensor.name, self._plan.arrays, self._plan.dtype
        if name not in self._wholes:
            made = arrays.empty(wanted if arrays.is_converted(dtype, wanted) else dtype, whole.shape)
            self._wholes[name] = made, whole.pieces
        array, left = self._wholes[name]
        if 0 not in piece.shape:
            array[tuple(slice(at, at + extent) for at, extent in zip(item.at, piece.shape))] = piece
        self._wholes[name] = array, left - 1
        if left > 1:
            return None
        del self._wholes[name]
        return name, array
