# SPDX-License-Identifier: Apache-2.0

"""Requests in flight.

One Python thread waits for a session's requests to end and sets their futures; it starts with the first request. The
library's threads never call Python, and no byte moves with the GIL held.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import weakref
from collections.abc import Generator
from typing import Any

from penstock import _native, threads
from penstock._native import Report
from penstock.errors import CanceledError, ClosedError, PenstockError
from penstock.seconds import timeout_of

__all__ = ["Future"]


class Future(threads.Future[Report]):
    """A `concurrent.futures.Future` of a `Report`, which can be awaited, too.

    `cancel()` succeeds while the request has not begun. A timeout of `result(timeout)` does not stop the request: the
    memory stays in use until `done()`. Only a deadline (`timeout=` of the call that made it) does.
    """

    _number: int = 0
    _pending: Pending | None = None
    _file: bytes = b""  # Its name.

    def cancel(self) -> bool:
        if self.cancelled():
            return True
        if self._pending is None or not self._pending.cancel(self._number):
            return False
        return super().cancel() or self.cancelled()

    def __await__(self) -> Generator[Any, None, Report]:
        return asyncio.wrap_future(self).__await__()


class _Ends:
    """The state of the waiting thread: without the session, so that a dropped session can be freed."""

    def __init__(self, native: _native.Requests) -> None:
        self.native = native
        self.futures: dict[int, Future] = {}
        # Reentrant, since converting a buffer, or a finalizer, may submit another request.
        self.lock = threading.RLock()
        self.closing = False
        self.thread = threading.Thread(target=_run, args=(self,), name="penstock-reap", daemon=True)

    def stop(self) -> None:
        """Ends the thread, and leaves requests in flight to the library."""
        self.closing = True
        self.native.wake()
        if threading.current_thread() is not self.thread:
            self.thread.join()


class Pending:
    """The requests of one session."""

    def __init__(self, session: _native.SessionHandle) -> None:
        self._ends = _Ends(_native.Requests(session))
        self._ends.thread.start()
        weakref.finalize(self, self._ends.stop).atexit = False
        _all.add(self)

    def submit(self, file: _native.File, is_write: bool, memories: list[Any], offset: int, size: int,
               buffer_offset: int, stream: Any, timeout: float | None) -> Future:
        future, ends, seconds = Future(), self._ends, timeout_of(timeout)
        # With the lock, so that the thread does not see the end of a request before its future is registered.
        with ends.lock:
            if ends.closing:
                raise ClosedError("could not submit a request: the session is closed, or the process ends")
            number = ends.native.submit(file, is_write, memories, offset, size, buffer_offset, stream, seconds)
            future._number, future._pending, future._file = number, self, file._name
            ends.futures[number] = future
        return future

    def cancel(self, number: int) -> bool:
        return self._ends.native.cancel(number)

    def under_way(self) -> int:
        """Requests that have not ended, or whose memory the kernel still uses."""
        return self._ends.native.under_way()

    def close(self) -> None:
        """Waits for requests that have begun, and cancels the others."""
        self._ends.native.close()
        self.stop()

    def stop(self) -> None:
        self._ends.stop()

    def forget(self) -> None:
        """In a forked child: its thread and its requests are the parent's."""
        ends = self._ends
        ends.lock, ends.closing = threading.RLock(), True
        futures, ends.futures = ends.futures, {}
        for future in futures.values():
            future._condition = threading.Condition()
            if not future.done():
                future.set_exception(ClosedError("the request belongs to the process that forked this one"))


def _run(ends: _Ends) -> None:
    while True:
        closing = ends.closing
        for number, report, error in ends.native.reap(not closing):
            with ends.lock:
                future = ends.futures.pop(number, None)
            try:
                if future is not None:
                    _finish(future, report, error)
            except BaseException:  # A callback's exception must not leave other requests waiting for ever.
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
            del future
        if closing:
            return


def _finish(future: Future, report: Report, error: Exception | None) -> None:
    if isinstance(error, CanceledError):
        threads.Future.cancel(future)
    if not future.set_running_or_notify_cancel():
        return
    if error is None:
        future.set_result(report)
    else:
        if isinstance(error, PenstockError) and future._file:
            error.filename = os.fsdecode(future._file)
        future.set_exception(error)


# All instances, whose threads must end before the interpreter.
_all: weakref.WeakSet[Pending] = weakref.WeakSet()


def stop_all() -> None:
    for pending in list(_all):
        pending.stop()


def forget_all() -> None:
    for pending in list(_all):
        pending.forget()
