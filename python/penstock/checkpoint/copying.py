# SPDX-License-Identifier: Apache-2.0

"""Copies of a state's bytes in host memory, made while the trainer stands still or beside it.

Beside it, a GPU copies what was queued at once, and a thread the rest. `before` is called by who is about to change
something: it makes the GPU's further work wait for the copy, sets aside what is not begun, and waits itself for the
processor's copies alone. Each stream that is given changes waits by itself. Threads share deques and flags alone, so
that Ctrl-C leaves nobody waiting for a lock.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Iterator

from penstock.checkpoint.lanes import Batch, Lane, Move, Owners

BATCH_BYTES = 64 << 20
POLL_S = 0.0002


def batches_of(moves: Iterable[tuple[Lane, Owners, Move]]) -> list[Batch]:
    """Cuts large tensors, and puts small ones together that come from one device and have the same owners."""
    batches: list[Batch] = []
    last: dict[tuple[Lane, Owners], Batch] = {}
    for lane, owners, move in moves:
        for found, copy in _pieces(move):
            batch = last.get((lane, owners))
            if batch is None or batch.nbytes + copy.nbytes > BATCH_BYTES:
                batch = last[lane, owners] = Batch(lane, owners)
                batches.append(batch)
            batch.moves.append((found, copy))
            batch.nbytes += copy.nbytes
    return batches


def _pieces(move: Move) -> Iterator[Move]:
    found, copy = move
    if 0 < copy.nbytes <= BATCH_BYTES:
        yield move
        return
    for at in range(0, copy.nbytes, BATCH_BYTES):
        yield found[at:at + BATCH_BYTES], copy[at:at + BATCH_BYTES]


class Copying:
    """Queues the copies of the batches that nobody owns, in the order of the caller's GPU work, and then of those that
    the devices have no room to set aside, before the constructor returns. run() copies the others. end_save() tells
    that the caller has queued all that reads what is saved."""

    def __init__(self, batches: list[Batch]) -> None:
        self._batches = [*batches]
        self._lanes = {batch.lane for batch in batches}
        self._at_once = [batch for batch in batches if not batch.owners]
        self._ends: list[Batch] = []  # Of no bytes, where each device's work for save() ends.
        self._queued, self._waiting = deque(self._at_once), deque[Batch]()
        self._inside: set[object] = set()  # Calls of before() that may have taken batches.
        self.is_over = False
        for batch in self._at_once:
            batch.lane.copy_at_once(batch)
        self._begin_all_but_spare([batch for batch in batches if batch.owners])

    def _begin_all_but_spare(self, owned: list[Batch]) -> None:
        room = {batch.lane: batch.lane.spare_bytes for batch in owned}
        begun: dict[Lane, list[Batch]] = {lane: [] for lane in room}
        for batch in reversed(owned):
            room[batch.lane] -= batch.nbytes
            batch.place = room[batch.lane]
            (begun[batch.lane] if room[batch.lane] < 0 else self._waiting).append(batch)
        self._waiting.reverse()
        for each in begun.values():
            self._begin(each[::-1])

    def _begin(self, batches: list[Batch]) -> None:
        if batches:
            batches[0].lane.begin(batches)
            self._queued.extend(batches)

    def end_save(self) -> None:
        for lane in self._lanes:
            end = Batch(lane, frozenset())
            lane.copy_at_once(end)
            self._ends.append(end)
            self._batches.append(end)
            self._queued.append(end)

    def settle(self) -> None:
        """Waits until what nobody owns is copied."""
        for lane in {batch.lane for batch in self._at_once}:
            lane.settle()

    def run(self) -> None:
        """Copies until all is whole."""
        try:
            while not all(batch.is_whole for batch in self._batches):
                self._advance()
        finally:
            self.is_over, self._batches, self._at_once = True, [], []
            self._queued.clear()
            self._waiting.clear()

    def _advance(self) -> None:
        """Waits for the newest copy first: the others of its device are done by then, and the trainer is disturbed
        once."""
        if self._queued:
            batch = self._queued.pop()
            batch.lane.finish(batch)
        elif self._waiting:
            self._begin_some()
        elif not self._inside:
            self._recover()
        else:
            time.sleep(POLL_S)

    def _recover(self) -> None:
        """Copies what Ctrl-C had left out within before()."""
        lost = [batch for batch in self._batches if not batch.is_whole]
        self._queued.extend(batch for batch in lost if batch.event is not None)
        self._waiting.extend(batch for batch in lost if batch.event is None)

    def _begin_some(self) -> None:
        nbytes = 0
        with contextlib.suppress(IndexError):  # Nothing waits.
            while nbytes == 0 or nbytes < self._waiting[0].lane.ahead_bytes:
                batch = self._waiting.popleft()
                self._begin([batch])
                nbytes += batch.nbytes

    def before(self, owner: int | None = None) -> None:
        """Returns when the owner may change what it owns (None: everybody), on a GPU by work that the current stream is
        given from now on. Each stream comes once behind all that save() queued, and once behind each copy."""
        streams = {lane: lane.stream() for lane in self._lanes}

        def lacking(batches: Iterable[Batch]) -> list[Batch]:
            return [batch for batch in batches if not batch.is_whole and streams[batch.lane] not in batch.behind]

        self._wait_for(lacking(self._ends))
        wanted = lacking(batch for batch in self._batches if owner is None or owner in batch.owners)
        me = object()
        try:
            self._inside.add(me)
            self._set_aside(wanted)
        finally:
            self._inside.discard(me)
        self._wait_for(wanted)

    def _set_aside(self, wanted: list[Batch]) -> None:
        for batch in self._taken(wanted):
            batch.lane.set_aside(batch)
            if not batch.is_whole:
                (self._waiting if batch.event is None else self._queued).append(batch)

    def _wait_for(self, wanted: list[Batch]) -> None:
        for batch in wanted:
            while not self.is_over and not batch.lane.is_freed(batch):
                time.sleep(POLL_S)

    def _taken(self, wanted: list[Batch]) -> list[Batch]:
        """Those of them that nobody has begun."""
        taken: list[Batch] = []
        for batch in wanted:
            with contextlib.suppress(ValueError):
                self._waiting.remove(batch)
                (taken if batch.after is None else self._waiting).append(batch)  # It is set aside but once.
        return taken
