# SPDX-License-Identifier: Apache-2.0

"""For programs written for KvikIO: `CuFile` with its calls. Start with `from penstock.kvikio import CuFile`.

Offsets and sizes are in bytes. Differences: `read` and the others raise `penstock.PenstockError`; `task_size` is
accepted and ignored, since Penstock splits requests itself; futures and files have `path`, `reason` and `gb_per_s`,
and print as a sentence.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from penstock._native import Report
from penstock.futures import Future
from penstock.progress import Meter, Progress
from penstock.sessions import Session, default_session

__all__ = ["CuFile", "IOFuture", "IOFutureStream"]

_NO_ORDER = -1  # pread() and pwrite() have no stream order, like KvikIO's: callers synchronize before.
_MODES = {"r": "r", "r+": "r+", "w": "w", "w+": "w", "+": "r+"}


class _Measured:
    """What has `progress`: a sentence, and its parts."""

    @property
    def progress(self) -> Progress:
        raise NotImplementedError

    @property
    def path(self) -> str | None:
        """The path that moved the most bytes."""
        return self.progress.path

    @property
    def reason(self) -> str | None:
        """Why no better path moved them, or None."""
        return self.progress.reason

    @property
    def gb_per_s(self) -> float:
        return self.progress.gb_per_s

    def __str__(self) -> str:
        return str(self.progress)

    def __repr__(self) -> str:
        return f"<penstock.kvikio.{type(self).__name__}: {self}>"


class IOFuture(_Measured):
    """A request in flight."""

    def __init__(self, future: Future, meter: Meter) -> None:
        self.future, self._meters = future, [Meter(), meter]
        self._lock, self._is_counted = threading.Lock(), False
        for each in self._meters:
            each.begin()
        future.add_done_callback(self._count)

    def _count(self, future: Any) -> None:
        """Futures tell waiters first and callbacks then: whoever comes first counts, and the other waits for it."""
        with self._lock:
            if not self._is_counted:
                self._is_counted = True
                for each in self._meters:
                    each.end_with(None if future.cancelled() or future.exception() else future.result())

    def get(self) -> int:
        """Waits, and returns how many bytes were moved."""
        return self.report().bytes

    def done(self) -> bool:
        return self.future.done()

    @property
    def progress(self) -> Progress:
        """What was moved, which is nothing before the request has ended."""
        if self.future.done():
            self._count(self.future)
        return self._meters[0].progress()

    def report(self) -> Report:
        """Waits, and returns what the request did."""
        report = self.future.result()
        self._count(self.future)
        return report


class IOFutureStream(IOFuture):
    """A request in the order of a CUDA stream."""

    def check_bytes_done(self) -> int:
        """Waits, and returns how many bytes were moved."""
        return self.get()


class CuFile(_Measured):
    """A file that is read into and written from device or host memory, like `kvikio.CuFile`.

    flags: "r" (read), "w" (write, emptied), "r+" or "+" (read and write).
    """

    def __init__(self, file: str | os.PathLike[str], flags: str = "r", *, session: Session | None = None) -> None:
        if flags not in _MODES:
            raise ValueError(f"flags {flags!r}: expected 'r', 'r+', 'w', 'w+' or '+'")
        self._file, self._meter = (session or default_session()).open(file, _MODES[flags]), Meter()

    def close(self) -> None:
        self._file.close()

    @property
    def closed(self) -> bool:
        return self._file.closed

    @property
    def progress(self) -> Progress:
        """What all requests have moved, in the seconds in which one was under way."""
        return self._meter.progress()

    def pread(self, buf: Any, size: int | None = None, file_offset: int = 0, task_size: int | None = None) -> IOFuture:
        """Reads into `buf` and returns at once. size: None for all of it."""
        return IOFuture(self._file.read_async(buf, file_offset, size=_size(size), stream=_NO_ORDER), self._meter)

    def pwrite(self, buf: Any, size: int | None = None, file_offset: int = 0, task_size: int | None = None) -> IOFuture:
        """Writes from `buf` and returns at once."""
        return IOFuture(self._file.write_async(buf, file_offset, size=_size(size), stream=_NO_ORDER), self._meter)

    def read(self, buf: Any, size: int | None = None, file_offset: int = 0, task_size: int | None = None) -> int:
        """Reads into `buf`, and returns how many bytes were read."""
        return self._move(self._file.read, buf, file_offset, size)

    def write(self, buf: Any, size: int | None = None, file_offset: int = 0, task_size: int | None = None) -> int:
        """Writes from `buf`, and returns how many bytes were written."""
        return self._move(self._file.write, buf, file_offset, size)

    def raw_read(self, buf: Any, size: int | None = None, file_offset: int = 0, dev_offset: int = 0) -> int:
        """Reads to `dev_offset` of `buf`, in one request."""
        return self._move(self._file.read, buf, file_offset, size, dev_offset)

    def raw_write(self, buf: Any, size: int | None = None, file_offset: int = 0, dev_offset: int = 0) -> int:
        """Writes from `dev_offset` of `buf`, in one request."""
        return self._move(self._file.write, buf, file_offset, size, dev_offset)

    def raw_read_async(self, buf: Any, stream: Any, size: int | None = None, file_offset: int = 0,
                       dev_offset: int = 0) -> IOFutureStream:
        """Reads in the order of the stream."""
        return IOFutureStream(
            self._file.read_async(buf, file_offset, size=_size(size), buffer_offset=dev_offset, stream=stream),
            self._meter)

    def raw_write_async(self, buf: Any, stream: Any, size: int | None = None, file_offset: int = 0,
                        dev_offset: int = 0) -> IOFutureStream:
        """Writes in the order of the stream."""
        return IOFutureStream(
            self._file.write_async(buf, file_offset, size=_size(size), buffer_offset=dev_offset, stream=stream),
            self._meter)

    def _move(self, call: Callable[..., Report], buf: Any, file_offset: int, size: int | None, at: int = 0) -> int:
        report = None
        self._meter.begin()
        try:
            report = call(buf, file_offset, size=_size(size), buffer_offset=at)
        finally:
            self._meter.end_with(report)
        return report.bytes

    def __enter__(self) -> CuFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def _size(size: int | None) -> int:
    return -1 if size is None else size
