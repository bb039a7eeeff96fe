# SPDX-License-Identifier: Apache-2.0

"""Requests that are under way.

One thread of Python waits for the ends of a session's requests and sets their futures; it starts with the first
request. The library's own threads never call Python, and no byte moves with the interpreter's lock held.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import weakref
from collections.abc import Generator
from typing import Any

from penstock import _native
from penstock._native import Report
from penstock.errors import CanceledError, ClosedError

__all__ = ["Future"]


class Future(concurrent.futures.Future[Report]):
    """A `concurrent.futures.Future` of a `Report`, which can be awaited, too.

    `cancel()` succeeds while the request has not begun. Whoever stops waiting for it (`result(timeout)`) does not stop
    the request: the memory stays in use until `done()`. Only a deadline (`timeout=` of the call that made it) does.
    """

    _number: int = 0
    _pending: Pending | None = None

    def cancel(self) -> bool:
        if self.cancelled():
            return True
        if self._pending is None or not self._pending.cancel(self._number):
            return False
        return super().cancel() or self.cancelled()

    def __await__(self) -> Generator[Any, None, Report]:
        return asyncio.wrap_future(self).__await__()


class Pending:
    """The requests of one session, and the thread that waits for their ends."""

    def __init__(self, session: _native.SessionHandle) -> None:
        self._native = _native.Requests(session)
        self._futures: dict[int, Future] = {}
        self._lock = threading.Lock()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="penstock-reap", daemon=True)
        self._thread.start()
        _all.add(self)

    def submit(self, file: _native.File, is_write: bool, memories: list[Any], offset: int, size: int,
               buffer_offset: int, stream: Any, timeout: float | None) -> Future:
        future = Future()
        # With the lock, so that the thread does not meet the end of a request before its future is known.
        with self._lock:
            number = self._native.submit(file, is_write, memories, offset, size, buffer_offset, stream,
                                         -1.0 if timeout is None else max(float(timeout), 0.0))
            future._number, future._pending = number, self
            self._futures[number] = future
        return future

    def cancel(self, number: int) -> bool:
        return self._native.cancel(number)

    def close(self) -> None:
        """Waits for what has begun; what has not is canceled."""
        self._native.close()
        self.stop()

    def stop(self) -> None:
        """Ends the thread, and leaves what is under way to the library."""
        self._closing = True
        self._native.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def forget(self) -> None:
        """In a forked child: its thread and its requests are the parent's."""
        self._lock = threading.Lock()
        futures, self._futures = self._futures, {}
        for future in futures.values():
            future._condition = threading.Condition()
            future.set_exception(ClosedError("the request belongs to the process that forked this one"))

    def _run(self) -> None:
        while True:
            closing = self._closing
            for number, report, error in self._native.reap(not closing):
                with self._lock:
                    future = self._futures.pop(number, None)
                if future is not None:
                    _finish(future, report, error)
                del future
            if closing:
                return


def _finish(future: Future, report: Report, error: Exception | None) -> None:
    if isinstance(error, CanceledError):
        concurrent.futures.Future.cancel(future)
    if not future.set_running_or_notify_cancel():
        return
    if error is None:
        future.set_result(report)
    else:
        future.set_exception(error)


# All there are: their threads end before the interpreter does.
_all: weakref.WeakSet[Pending] = weakref.WeakSet()


def stop_all() -> None:
    for pending in list(_all):
        pending.stop()


def forget_all() -> None:
    for pending in list(_all):
        pending.forget()
