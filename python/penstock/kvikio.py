# SPDX-License-Identifier: Apache-2.0

"""For programs written for KvikIO: `CuFile` with its calls. Start with `from penstock.kvikio import CuFile`.

Offsets and sizes are in bytes. Differences: `read` and the others raise `penstock.PenstockError`; `task_size` is
accepted and ignored, since Penstock splits requests itself; `future.report()` says which path moved the bytes.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

from penstock._native import Report
from penstock.futures import Future
from penstock.sessions import Session, default_session

__all__ = ["CuFile", "IOFuture", "IOFutureStream"]

_NO_ORDER = -1  # pread() and pwrite() have no stream order, like KvikIO's: callers synchronize before.
_MODES = {"r": "r", "r+": "r+", "w": "w", "w+": "w", "+": "r+"}


class IOFuture:
    """A request in flight."""

    def __init__(self, future: Future) -> None:
        self.future = future

    def get(self) -> int:
        """Waits, and returns how many bytes were moved."""
        return self.future.result().bytes

    def done(self) -> bool:
        return self.future.done()

    def report(self) -> Report:
        """Waits, and returns what the request did."""
        return self.future.result()


class IOFutureStream(IOFuture):
    """A request in the order of a CUDA stream."""

    def check_bytes_done(self) -> int:
        """Waits, and returns how many bytes were moved."""
        return self.get()


class CuFile:
    """A file that is read into and written from device or host memory, like `kvikio.CuFile`.

    flags: "r" (read), "w" (write, emptied), "r+" or "+" (read and write).
    """

    def __init__(self, file: str | os.PathLike[str], flags: str = "r", *, session: Session | None = None) -> None:
        if flags not in _MODES:
            raise ValueError(f"flags {flags!r}: expected 'r', 'r+', 'w', 'w+' or '+'")
        self._file = (session or default_session()).open(file, _MODES[flags])

    def close(self) -> None:
        self._file.close()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def pread(self, buf: Any, size: int | None = None, file_offset: int = 0, task_size: int | None = None) -> IOFuture:
        """Reads into `buf` and returns at once. size: None for all of it."""
        return IOFuture(self._file.read_async(buf, file_offset, size=_size(size), stream=_NO_ORDER))

    def pwrite(self, buf: Any, size: int | None = None, file_offset: int = 0, task_size: int | None = None) -> IOFuture:
        """Writes from `buf` and returns at once."""
        return IOFuture(self._file.write_async(buf, file_offset, size=_size(size), stream=_NO_ORDER))

    def read(self, buf: Any, size: int | None = None, file_offset: int = 0, task_size: int | None = None) -> int:
        """Reads into `buf`, and returns how many bytes were read."""
        return self._file.read(buf, file_offset, size=_size(size)).bytes

    def write(self, buf: Any, size: int | None = None, file_offset: int = 0, task_size: int | None = None) -> int:
        """Writes from `buf`, and returns how many bytes were written."""
        return self._file.write(buf, file_offset, size=_size(size)).bytes

    def raw_read(self, buf: Any, size: int | None = None, file_offset: int = 0, dev_offset: int = 0) -> int:
        """Reads to `dev_offset` of `buf`, in one request."""
        return self._file.read(buf, file_offset, size=_size(size), buffer_offset=dev_offset).bytes

    def raw_write(self, buf: Any, size: int | None = None, file_offset: int = 0, dev_offset: int = 0) -> int:
        """Writes from `dev_offset` of `buf`, in one request."""
        return self._file.write(buf, file_offset, size=_size(size), buffer_offset=dev_offset).bytes

    def raw_read_async(self, buf: Any, stream: Any, size: int | None = None, file_offset: int = 0,
                       dev_offset: int = 0) -> IOFutureStream:
        """Reads in the order of the stream."""
        return IOFutureStream(
            self._file.read_async(buf, file_offset, size=_size(size), buffer_offset=dev_offset, stream=stream))

    def raw_write_async(self, buf: Any, stream: Any, size: int | None = None, file_offset: int = 0,
                        dev_offset: int = 0) -> IOFutureStream:
        """Writes in the order of the stream."""
        return IOFutureStream(
            self._file.write_async(buf, file_offset, size=_size(size), buffer_offset=dev_offset, stream=stream))

    def __enter__(self) -> CuFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def _size(size: int | None) -> int:
    return -1 if size is None else size
