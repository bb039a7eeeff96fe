# SPDX-License-Identifier: Apache-2.0

"""Threads that read batches: none of them keeps the interpreter from ending, whatever its drive does."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

__all__ = ["Reading", "Readers"]


class Reading(Future[dict[str, int]]):
    """Bytes by path, of one batch."""

    ended: float = 0.0  #: When it did, by time.monotonic().


class Readers:
    """As many as there are readings at once: none of them waits for another one."""

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
        """They end when they have done what they were given; nobody waits for that."""
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
        del each, reading, work, error  # Or its memory would stay until the next one comes.
