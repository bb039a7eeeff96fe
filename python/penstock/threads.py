# SPDX-License-Identifier: Apache-2.0

"""Work by other threads, which Ctrl-C neither stops nor leaves waiting.

A signal's handler may raise between any two steps of the main thread. If that thread waits for a future, or for a
thread that starts, it holds a lock for a moment; raised in that moment, the lock stays taken, and the thread that works
waits for it for ever. So who waits here shares only lists with those that work, and a lock that they release.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import math
import time
from _thread import allocate_lock, start_new_thread
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from penstock.terminal import complain

Thing = TypeVar("Thing")
Result = TypeVar("Result")

LOOK_S = 1.0  # How often one who waits looks by itself; the end of a thread wakes one of them.


class End:
    """Wakes one of those who wait for something to end."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()

    def tell(self) -> None:
        with contextlib.suppress(RuntimeError):  # Another has told, and nobody has looked since.
            self._lock.release()

    def wait(self, is_over: Callable[[], bool], timeout: float | None = None) -> bool:
        """Waits until it is over; False after so many seconds."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not is_over():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._lock.acquire(timeout=min(left, LOOK_S))
        return True


class Threads:
    """Threads that a program's end does not wait for."""

    def __init__(self) -> None:
        self.begun: list[bool] = []
        self.ended: list[bool] = []
        self._end = End()

    def start(self, call: Callable[[], None]) -> None:
        start_new_thread(self._run, (call,))

    def wait(self, count: int = 0, timeout: float | None = None) -> bool:
        """Waits until so many have ended, and all that have begun; False after so many seconds."""
        return self._end.wait(lambda: len(self.ended) >= max(count, len(self.begun)), timeout)

    def _run(self, call: Callable[[], None]) -> None:
        self.begun.append(True)
        try:
            call()
        finally:
            self.ended.append(True)
            self._end.tell()


def for_each(work: Callable[[Thing], None], things: Iterable[Thing], most: int) -> None:
    """Calls work(thing) for each of the things, up to `most` at once, and returns when no call is under way any more.

    After a failure, calls that have not begun are left out, and the failure nearest to the first thing is raised. So it
    is after Ctrl-C. A thread notes that it has begun before it looks what is left to do, and the caller leaves nothing
    to do before it looks who has begun: so either the thread finds nothing, or the caller waits for it.
    """
    waiting = deque(enumerate(things))
    failures: list[tuple[int, BaseException]] = []
    threads = Threads()

    def work_on() -> None:
        with contextlib.suppress(IndexError):  # Nothing is left.
            while True:
                call(*waiting.popleft())

    def call(place: int, thing: Thing) -> None:
        try:
            work(thing)
        except BaseException as error:
            fail(place, error)

    def fail(place: int, error: BaseException) -> None:
        failures.append((place, error))
        waiting.clear()

    try:
        count = min(max(most, 1), len(waiting))
        for _ in range(count):
            threads.start(work_on)
        threads.wait(count)
    except BaseException as error:
        fail(-1, error)
        threads.wait()
    if failures:
        _raise_first(failures)


def _raise_first(failures: list[tuple[int, BaseException]]) -> None:
    _, first = min(failures, key=lambda each: each[0])
    failures.clear()  # An error refers to the frames that it went through, and they to this list.
    try:
        raise first
    finally:
        del first


class Later(Generic[Result]):
    """A call by a thread of its own. The program does not end before it, and prints an error that nobody asked for."""

    def __init__(self, call: Callable[[], Result]) -> None:
        self._results: list[Result] = []
        self._error: BaseException | None = None
        self._threads = Threads()
        _open.add(self)
        self._threads.start(lambda: self._run(call))

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for its end; False after so many seconds."""
        return self._threads.wait(1, timeout)

    def done(self) -> bool:
        return len(self._threads.ended) == 1

    def error(self) -> BaseException | None:
        """Waits for its end, and returns what it raised."""
        self.wait()
        _open.discard(self)
        return self._error

    def result(self, timeout: float | None = None) -> Result:
        """Waits for its end, and returns its result, or raises its error. Raises TimeoutError after so many seconds."""
        if not self.wait(timeout):
            raise TimeoutError(f"it has not ended after {timeout} s")
        if (error := self.error()) is not None:
            raise error
        return self._results[0]

    def _run(self, call: Callable[[], Result]) -> None:
        try:
            self._results.append(call())
            _open.discard(self)
        except BaseException as error:
            self._error = error

    def _finish(self) -> None:
        self.wait(LOOK_S)
        if self._threads.begun:  # Otherwise Ctrl-C came before its thread was started.
            self.wait()
        if self._error is not None:
            complain(f"work in the background failed: {type(self._error).__name__}: {self._error}")

    def _lose(self) -> None:
        self._error = RuntimeError("the thread belongs to the process that this one was forked from")
        self._threads.ended.append(True)


class Future(concurrent.futures.Future[Result]):
    """A future. Who waits for it in result() or exception() holds no lock that its thread needs to set it."""

    _end: End | None = None

    def done(self) -> bool:
        return self._state not in ("PENDING", "RUNNING")

    def result(self, timeout: float | None = None) -> Result:
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait(timeout)
        return super().exception(0)

    def set_result(self, result: Result) -> None:
        super().set_result(result)
        self._tell()

    def set_exception(self, exception: BaseException | None) -> None:
        super().set_exception(exception)
        self._tell()

    def cancel(self) -> bool:
        is_canceled = super().cancel()
        self._tell()
        return is_canceled

    def _wait(self, timeout: float | None) -> None:
        if self.done():
            return
        self._end = self._end or End()
        if not self._end.wait(self.done, timeout):
            raise TimeoutError()

    def _tell(self) -> None:
        if self._end is not None:
            self._end.tell()


_open: set[Later[Any]] = set()  # Those under way, and those that failed and were not asked.


def finish_all() -> None:
    """Waits for all calls under way: the program ends."""
    for each in list(_open):
        each._finish()


def after_fork() -> None:
    """In the child: the threads are the parent's."""
    for each in list(_open):
        each._lose()
    _open.clear()
