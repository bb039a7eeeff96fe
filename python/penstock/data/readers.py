# SPDX-License-Identifier: Apache-2.0

"""Threads that read batches: a drive that hangs does not keep the interpreter from exiting."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from penstock.threads import Future

__all__ = ["Reading", "Readers"]


class Reading(Future[dict[str, int]]):
    """A future of the bytes by path of one batch."""

    ended: float = 0.0  #: When the read ended, by time.monotonic().


class Readers:
    """As many threads as concurrent reads, so that no read waits for another."""

    def __init__(self, count: int) -> None:
        self._queue: queue.SimpleQueue[tuple[Reading, Callable[[], dict[str, int]]] | None] = queue.SimpleQueue()
        self._count = count
        for _ in range(count):
            threading.Thread(target=_run, args=(self._queue,), name="penstock-data", daemon=True).start()

    def submit(self, work: Callable[[], dict[str, int]]) -> Reading:
        reading = Reading()
        self._queue.put((reading, work))
        return reading

    def close(self) -> None:
        """The threads end after their current work; this does not wait for them."""
        for _ in range(self._count):
            self._queue.put(None)


def _run(given: queue.SimpleQueue[tuple[Reading, Callable[[], dict[str, int]]] | None]) -> None:
    while (each := given.get()) is not None:
        reading, work = each
        if not reading.set_running_or_notify_cancel():
            continue
        try:
            moved, error = work(), None
        except BaseException as raised:
            moved, error = {}, raised
        reading.ended = time.monotonic()
        if error is None:
            reading.set_result(moved)
        else:
            reading.set_exception(error)
        del each, reading, work, error  # Drops references, or the memory would stay until the next read.
