# SPDX-License-Identifier: Apache-2.0

"""Copies of a state's bytes in host memory, made while the trainer stands still or beside it.

Beside it, a thread copies batch after batch. `before` is called by who is about to change something: it returns when
that is copied or set aside. Threads share deques and flags alone, so that Ctrl-C leaves nobody waiting for a lock.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Iterator

from penstock.checkpoint.lanes import Batch, Lane, Move, Owners

BATCH_BYTES = 32 << 20
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
    for at in range(0, copy.nbytes, BATCH_BYTES):
        yield found[at:at + BATCH_BYTES], copy[at:at + BATCH_BYTES]


class Copying:
    """Copies the batches that nobody owns before the constructor returns, in the order of the caller's GPU work, and
    the others in run()."""

    def __init__(self, batches: list[Batch]) -> None:
        self._batches = batches
        self._queued = deque(batch for batch in batches if not batch.owners)
        self._waiting = deque(batch for batch in batches if batch.owners)
        self._inside: set[object] = set()  # Calls of before() that may have taken batches.
        self._is_over = False
        for batch in self._queued:
            batch.lane.copy_at_once(batch)

    def settle(self) -> None:
        """Waits until what nobody owns is copied."""
        for lane in {batch.lane for batch in self._queued}:
            lane.settle()

    def run(self) -> None:
        """Copies until all is whole."""
        try:
            while not all(batch.is_whole for batch in self._batches):
                self._advance()
        finally:
            self._is_over, self._batches = True, []

    def _advance(self) -> None:
        with contextlib.suppress(IndexError):  # Nothing waits.
            while sum(batch.nbytes for batch in self._queued) <= self._queued_most():
                batch = self._waiting.popleft()
                batch.lane.begin(batch)
                self._queued.append(batch)
        if self._queued:
            batch = self._queued[0]
            batch.lane.finish(batch)
            self._queued.popleft()
        elif not self._inside and not self._waiting:
            self._waiting.extend(batch for batch in self._batches if not batch.is_whole)  # Ctrl-C came within before().
        else:
            time.sleep(POLL_S)

    def _queued_most(self) -> int:
        return self._queued[0].lane.ahead_bytes if self._queued else 0

    def before(self, owner: int | None = None) -> float:
        """Returns when the owner may change what it owns (None: everybody), and the seconds until then."""
        wanted = [batch for batch in self._batches if not batch.is_free and (owner is None or owner in batch.owners)]
        if not wanted:
            return 0.0
        began, me = time.monotonic(), object()
        try:
            self._inside.add(me)
            self._free(wanted)
        finally:
            self._inside.discard(me)
        return time.monotonic() - began

    def _free(self, wanted: list[Batch]) -> None:
        """Lets the thread copy for as long as the devices have other work, and sets the rest aside then."""
        self._waiting.extendleft(reversed(self._taken(wanted)))
        marks = [lane.mark() for lane in {batch.lane for batch in wanted}]
        is_aside = False
        while not self._is_over and not all(batch.is_free for batch in wanted):
            if not is_aside and all(is_reached() for is_reached in marks):
                self._set_aside(wanted)
                is_aside = True
            else:
                time.sleep(POLL_S)

    def _set_aside(self, wanted: list[Batch]) -> None:
        taken = self._taken(wanted)
        left = [batch for batch in taken if not batch.lane.set_aside(batch)]
        self._waiting.extend(batch for batch in taken if batch.is_free and not batch.is_whole)
        self._waiting.extendleft(reversed(left))

    def _taken(self, wanted: list[Batch]) -> list[Batch]:
        """Those of them that the thread has not begun."""
        taken = []
        for batch in wanted:
            with contextlib.suppress(ValueError):
                self._waiting.remove(batch)
                taken.append(batch)
        return taken
