# SPDX-License-Identifier: Apache-2.0

"""Work by other threads, which Ctrl-C neither stops nor leaves waiting.

A signal's handler may raise between any two steps of the main thread. If that thread waits for a future, or for a
thread that starts, it holds a lock for a moment; raised in that moment, the lock stays taken, and the thread that works
waits for it for ever. So who waits here shares only lists with those that work, and a lock that they release.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import math
import queue
import time
import weakref
from _thread import allocate_lock, get_ident, start_new_thread
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, ParamSpec, TypeVar

from penstock.terminal import complain

Thing = TypeVar("Thing")
Result = TypeVar("Result")
Given = ParamSpec("Given")

LOOK_S = 1.0  # How often one who waits looks by itself; the end of a thread wakes them one after the other.


class End:
    """Wakes one of those who wait for something to end, and that one the next."""

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
        self.tell()  # For the next one.
        return True


class Event:
    """Like threading.Event, whose lock stays taken where a handler raises as one has just taken it to wait or to set:
    whoever sets it next, or waits, then does so for ever."""

    def __init__(self) -> None:
        self._is_set, self._end = False, End()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._end.tell()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float) -> bool:
        """Waits until it is set; False after so many seconds."""
        return self._end.wait(self.is_set, timeout)


class Threads:
    """Threads that a program's end does not wait for."""

    def __init__(self) -> None:
        self.begun: list[bool] = []
        self.ended: list[bool] = []
        self._end = End()
        self._given: list[weakref.ref[deque[Callable[[], None]]]] = []  # Gone with its thread.

    def start(self, call: Callable[[], None]) -> None:
        calls = deque([call])
        start_new_thread(self._run, (calls,))
        self._given.append(weakref.ref(calls))

    def wait(self, count: int = 0, timeout: float | None = None) -> bool:
        """Waits until so many have ended, and all that have begun; False after so many seconds."""
        return self._end.wait(functools.partial(self.are_over, count), timeout)

    def are_over(self, count: int) -> bool:
        """Whether so many have ended, and all that have begun."""
        least = max(count, len(self.begun))
        if len(self.ended) >= least:
            return True
        # A thread that finds no memory for its first call says nothing.
        return len(self._given) >= least and all(each() is None for each in self._given)

    def _run(self, calls: deque[Callable[[], None]]) -> None:
        """Lets go of the call, and of all that it refers to, before it tells the end: who waits may end the program."""
        self.begun.append(True)
        try:
            calls.pop()()
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
        work_on()  # What is left where no thread found the memory to begin.
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
        _laters.add(self)
        _open.add(self)
        self._threads.start(lambda: self._run(call))

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for its end; False after so many seconds."""
        return self._threads.wait(1, timeout)

    def done(self) -> bool:
        return self.wait(0)

    def error(self) -> BaseException | None:
        """Waits for its end, and returns what it raised."""
        self.wait()
        _open.discard(self)
        if self._error is None and not self._results:
            self._error = MemoryError("its thread found no memory to begin")
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
        if self._error is None and not self._results:
            self._error = RuntimeError("the thread belongs to the process that this one was forked from")
        self._threads.ended.append(True)


class Future(concurrent.futures.Future[Result]):
    """A future. Who waits for it in result() or exception() holds no lock that its thread needs to set it."""

    ended: float = 0.0  #: When its call ended in a `Pool`, by time.monotonic().
    _end: End | None = None
    _stand_in: Callable[[], None] | None = None  # Makes the calls before its end, where the pool has no thread.

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
        end: End = vars(self).setdefault("_end", End())  # One for all who wait, whichever thread is the first.
        if not end.wait(self._is_done_by_whoever, timeout):
            raise TimeoutError()

    def _is_done_by_whoever(self) -> bool:
        if self._stand_in is not None and not self.done():
            self._stand_in()
        return self.done()

    def _tell(self) -> None:
        if self._end is not None:
            self._end.tell()


def wait(futures: Iterable[Future[Any]]) -> None:
    """Waits until all are done, however they end."""
    for each in futures:
        each._wait(None)


Calls = queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]


class Pool(concurrent.futures.Executor):
    """Threads that make calls, in the order in which they are submitted; also an executor for asyncio.

    Where no thread found the memory to begin, who submits a call makes it, or who waits for it.
    The program does not end before the calls, unless they `may_be_left`: a drive that hangs would keep it from ending.
    """

    def __init__(self, count: int, may_be_left: bool = False) -> None:
        self._may_be_left = may_be_left
        self._is_closed = False
        self._is_lost: list[bool] = []
        self._calls: Calls = queue.SimpleQueue()
        self._threads = Threads()
        self._members: set[int] = set()
        self._count = 0
        weakref.finalize(self, self._calls.put, None)  # A pool that nobody has any more lets its threads end.
        _pools.add(self)
        for _ in range(count):
            self._threads.start(functools.partial(_make_calls, self._calls, self._members))
            self._count += 1
        # It refers to the pool by nothing, so that futures do not keep it.
        self._stand_in = functools.partial(_stand_in, self._calls, self._threads, self._count, self._is_lost)

    def submit(self, call: Callable[Given, Result], /, *given: Given.args, **more: Given.kwargs) -> Future[Result]:
        future: Future[Result] = Future()
        self._calls.put((future, functools.partial(call, *given, **more)))
        if self._is_closed and future.cancel():  # Looked at behind the put: nobody may come for it any more.
            raise RuntimeError("the pool takes no more calls: it was shut down")
        future._stand_in = self._stand_in
        self._stand_in()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._is_closed = True
        if cancel_futures:
            _cancel_all(self._calls)
        self._calls.put(None)
        if wait and get_ident() in self._members:
            raise RuntimeError("a call in the pool cannot wait for the pool's end")
        if wait:
            self._threads.wait(self._count)

    def _finish(self) -> None:
        if not self._may_be_left:
            self.shutdown()

    def _lose(self) -> None:  # Cancels nothing: another thread of the parent's may have held a future's lock.
        self._is_closed = True
        self._is_lost.append(True)
        self._threads.ended.extend([True] * self._count)


def _make_calls(calls: Calls, members: set[int]) -> None:
    members.add(get_ident())
    while (each := calls.get()) is not None:
        future, call = each
        if future.set_running_or_notify_cancel():
            _make_call(future, call)
        del each, future, call  # Or what the call refers to would stay until the next one.
    members.discard(get_ident())  # Another thread may have the number next.
    calls.put(None)  # For the next thread.


def _stand_in(calls: Calls, threads: Threads, count: int, is_lost: list[bool]) -> None:
    """Makes the calls that nobody comes for: not those of a parent's threads."""
    if is_lost or not threads.are_over(count):
        return
    with contextlib.suppress(queue.Empty):
        while (each := calls.get_nowait()) is not None:
            if each[0].set_running_or_notify_cancel():
                _make_call(*each)
        calls.put(None)


def _make_call(future: Future[Any], call: Callable[[], Any]) -> None:
    try:
        result, error = call(), None
    except BaseException as raised:
        result, error = None, raised
    future.ended = time.monotonic()
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
        del error  # It refers to this frame.


def _cancel_all(calls: Calls) -> None:
    with contextlib.suppress(queue.Empty):
        while True:
            if (each := calls.get_nowait()) is not None:
                each[0].cancel()


_open: set[Later[Any]] = set()  # Those under way, and those that failed and were not asked.
_laters: weakref.WeakSet[Later[Any]] = weakref.WeakSet()  # Those, too, whose threads have yet to tell that they ended.
_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def finish_all() -> None:
    """Waits for all calls under way: the program ends."""
    for each in _with_pools(_open):
        each._finish()


def after_fork() -> None:
    """In the child: the threads are the parent's."""
    for each in _with_pools(_laters):
        each._lose()
    _open.clear()


def _with_pools(laters: Iterable[Later[Any]]) -> list[Later[Any] | Pool]:
    return [*laters, *_pools]
