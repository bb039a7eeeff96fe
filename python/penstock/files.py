# SPDX-License-Identifier: Apache-2.0

"""Files that are read into and written from any memory, of a GPU or of the host.

A buffer is a tensor of torch, anything with the buffer protocol (numpy arrays, bytearray, mmap),
`__cuda_array_interface__` or DLPack, a `DeviceMemory` or a `Pointer`. It must be contiguous.

Order on CUDA streams: a call on a buffer in GPU memory runs after the work that is already on the buffer's stream:
torch's current stream, the one of `__cuda_array_interface__`, or `stream=`. Synchronous calls wait for that work.
Asynchronous ones do not: they run in stream order, so that work queued later waits for them. `stream=-1` means no
order, which is the fastest if the caller knows that nothing else uses the memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from penstock import _native
from penstock._native import Report
from penstock.futures import Future, Pending
from penstock.records import Verdict

__all__ = ["File"]


class File(_native.File):
    """A file of a session; made by `Session.open()`, `Session.create()` or `penstock.open()`.

    `read(buffer, offset=0, *, size=-1, buffer_offset=0, stream=None)` and `write(...)` move bytes between the file,
    from `offset` on, and the buffer, from `buffer_offset` on; `size` -1 is the rest of the buffer. All are in bytes.
    They return a `Report` when the bytes have moved. A read that reaches the end of the file moves fewer bytes:
    `report.bytes` is how many. `readv(buffers, offset=0)` and `writev(...)` move one range of the file to or from
    several buffers. They raise `PenstockError`, and TypeError or ValueError for an unusable buffer.
    """

    _owner: Any  # The Session, kept alive by its files.

    def _submit(self, is_write: bool, memories: list[Any], offset: int, size: int, buffer_offset: int, stream: Any,
                timeout: float | None) -> Future:
        pending: Pending = self._owner._pending()
        return pending.submit(self, is_write, memories, offset, size, buffer_offset, stream, timeout)

    def read_async(self, buffer: Any, offset: int = 0, *, size: int = -1, buffer_offset: int = 0, stream: Any = None,
                   timeout: float | None = None) -> Future:
        """Like `read()`, but returns at once.

        timeout: seconds until the future fails with `TimedOutError`. The buffer is not written afterwards, because such
        a read uses a separate buffer of the same size. Not for requests in stream order: pass `stream=-1`.
        """
        return self._submit(False, [buffer], offset, size, buffer_offset, stream, timeout)

    def write_async(self, buffer: Any, offset: int = 0, *, size: int = -1, buffer_offset: int = 0, stream: Any = None,
                    timeout: float | None = None) -> Future:
        """Like `write()`, but returns at once. Do not change the buffer until the future is done.

        timeout: seconds until the future fails with `TimedOutError`. The file's contents there are then undefined, and
        the buffer stays referenced until the kernel releases it.
        """
        return self._submit(True, [buffer], offset, size, buffer_offset, stream, timeout)

    def readv_async(self, buffers: Iterable[Any], offset: int = 0, *, stream: Any = None,
                    timeout: float | None = None) -> Future:
        """Like `readv()`, but returns at once; see `read_async()`."""
        return self._submit(False, list(buffers), offset, -1, 0, stream, timeout)

    def writev_async(self, buffers: Iterable[Any], offset: int = 0, *, stream: Any = None,
                     timeout: float | None = None) -> Future:
        """Like `writev()`, but returns at once; see `write_async()`."""
        return self._submit(True, list(buffers), offset, -1, 0, stream, timeout)

    def explain(self, buffer: Any = None, offset: int = 0, *, size: int = -1, write: bool = False,
                device: int = 0) -> list[Verdict]:
        """The verdict of every path on such a request, best first. Moves nothing.

        Without a buffer, memory of the session's device number `device` is assumed.
        """
        return self._explain(write, buffer, offset, size, device)

    def __enter__(self) -> File:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        name = f" {os.fsdecode(self._name)!r}" if self._name else ""
        return f"<penstock.File{name}: {'closed' if self.closed else str(self.info()['size']) + ' bytes'}>"


class NewFile(File):
    """A file that appears under its name when it is whole: `with session.create(name) as file: file.write(...)`.

    Leaving the block publishes it (flushes it, names it, flushes the folder); an exception discards it.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._writes: list[Future] = []

    def _submit(self, is_write: bool, memories: list[Any], offset: int, size: int, buffer_offset: int, stream: Any,
                timeout: float | None) -> Future:
        future = super()._submit(is_write, memories, offset, size, buffer_offset, stream, timeout)
        if is_write:
            self._writes.append(future)
        return future

    def publish(self) -> None:
        """Waits for the writes in flight, flushes the file, gives it its name and flushes the folder.

        Raises the error of a failed write; then the file does not appear.
        """
        for future in self._writes:
            future.result()
        super().publish()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            if kind is None and not self.closed:
                self.publish()
        finally:
            self.close()


