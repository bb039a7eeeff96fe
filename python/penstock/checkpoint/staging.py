# SPDX-License-Identifier: Apache-2.0

"""Saves that go on behind a trainer, and how long it stood still for them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from penstock.checkpoint.memory import bytes_of
from penstock.checkpoint.states import Save
from penstock.checkpoint.trees import taken_apart
from penstock.progress import OnProgress, Progress
from penstock.sessions import Session

STAGINGS = ("staged", "windowed")


class Saving:
    """A save that goes on. stopped_s: how long the trainer stood still for it, the end of the save before included.
    staged_bytes: host memory that holds a copy of the state; it stays for the next save."""

    def __init__(self, folder: Path, stopped_s: float, staged_bytes: int, future: Future[Progress]) -> None:
        self.folder, self.stopped_s, self.staged_bytes = folder, stopped_s, staged_bytes
        self._future, self._is_told = future, False

    def result(self, timeout: float | None = None) -> Progress:
        """Waits for its end: what went by which paths. Of what is not `bytes_direct` the page cache has a copy.

        Raises what it failed with, and TimeoutError.
        """
        try:
            return self._future.result(timeout)
        finally:
            self._is_told = self._future.done()

    def done(self) -> bool:
        return self._future.done()

    def _tell(self) -> None:
        """Waits, and raises a failure that nobody has been told of."""
        error = self._future.exception()
        if error is not None and not self._is_told:
            self._is_told = True
            raise error


class Saver:
    """Saves one state after the other, behind a trainer that goes on meanwhile.

    staging: "staged" copies the state to host memory, which is kept, and the trainer stands still for that copy alone.
    "windowed" writes the files while the trainer stands still, through the session's own bounce buffers, and leaves
    flushing and publishing for later: no memory is needed besides.
    """

    def __init__(self, staging: str = "staged", *, session: Session | None = None, durable: bool = True,
                 direct: bool | None = None) -> None:
        if staging not in STAGINGS:
            raise ValueError(f"staging is {staging!r}: expected one of {', '.join(STAGINGS)}")
        self._staging, self._session, self._durable, self._direct = staging, session, durable, direct
        self._copies: dict[str, Any] = {}
        self._thread = ThreadPoolExecutor(1, "penstock-saver")
        self._last: Saving | None = None
        self._pid, self._is_closed = os.getpid(), False

    def save(self, state: Any, folder: str | os.PathLike[str], on_progress: OnProgress | None = None) -> Saving:
        """As `checkpoint.save()`; returns when the trainer may change the state. Waits for the save before, and raises
        what that failed with unless its `result()` has."""
        if os.getpid() != self._pid:
            raise RuntimeError("this Saver belongs to the process that this one was forked from, and so does its "
                               "thread: make another one here")
        if self._is_closed:
            raise RuntimeError("this Saver is closed: make another one")
        began = time.monotonic()
        if self._last is not None:
            self._last._tell()
        tree, tensors = taken_apart(state)
        is_staged = self._staging == "staged"
        begun = Save(tree, tensors, Path(folder), self._copied(tensors) if is_staged else tensors,
                     session=self._session, durable=self._durable, direct=self._direct, on_progress=on_progress)
        if not is_staged:
            begun.write()
        future = self._thread.submit(begun.whole if is_staged else begun.finish)
        staged = sum(copy.nbytes for copy in self._copies.values())
        self._last = Saving(Path(folder), time.monotonic() - began, staged, future)
        return self._last

    def close(self) -> None:
        """Waits for the last save, and lets go of the memory. Raises what it failed with unless its `result()` has."""
        self._end()
        self._copies.clear()
        if self._last is not None:
            self._last._tell()

    def __enter__(self) -> Saver:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._end()

    def _end(self) -> None:
        self._is_closed = True
        self._thread.shutdown()

    def _copied(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """The bytes of each in memory of our own: of a GPU's in pinned memory, all copies under way at once."""
        copies, devices = {}, set()
        for name, tensor in tensors.items():
            found = bytes_of(tensor)
            copy = self._copies.get(name)
            if copy is None or copy.nbytes != found.nbytes:
                copy = _memory_for(found)
            if getattr(found, "is_cuda", False):
                copy.copy_(found, non_blocking=True)
                devices.add(found.device)
            else:
                memoryview(_plain(copy))[:] = memoryview(_plain(found))
            copies[name] = copy
        for device in devices:
            import torch

            torch.cuda.current_stream(device).synchronize()
        self._copies = copies
        return copies


def _plain(found: Any) -> Any:
    return found.numpy() if hasattr(found, "data_ptr") else found


def _memory_for(found: Any) -> Any:
    if not getattr(found, "is_cuda", False):
        return memoryview(bytearray(found.nbytes))
    import torch

    return torch.empty(found.nbytes, dtype=torch.uint8, pin_memory=True)
