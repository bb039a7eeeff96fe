# SPDX-License-Identifier: Apache-2.0

"""Saves in the background of a trainer, and how long it waited for them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.checkpoint.memory import bytes_of
from penstock.checkpoint.states import Save
from penstock.checkpoint.trees import taken_apart
from penstock.progress import OnProgress, Progress
from penstock.sessions import Session
from penstock.threads import Later

STAGINGS = ("staged", "windowed")


class Saving:
    """A save in the background. stopped_s: how long the trainer waited for it, including for the previous save.
    staged_bytes: host memory with a copy of the state; it is kept for the next save."""

    def __init__(self, folder: Path, stopped_s: float, staged_bytes: int, save: Later[Progress]) -> None:
        self.folder, self.stopped_s, self.staged_bytes = folder, stopped_s, staged_bytes
        self._save, self._is_told = save, False

    def result(self, timeout: float | None = None) -> Progress:
        """Waits for its end, and returns the bytes by path. Bytes that are not `bytes_direct` are also in the page
        cache.

        Raises the save's error, and TimeoutError.
        """
        try:
            return self._save.result(timeout)
        finally:
            self._is_told = self._save.done()

    def done(self) -> bool:
        return self._save.done()

    def _tell(self) -> None:
        """Waits, and raises an error that was not raised before."""
        error = self._save.error()
        if error is not None and not self._is_told:
            self._is_told = True
            raise error


class Saver:
    """Saves states one after the other, in the background of a trainer.

    staging: "staged" copies the state to host memory, which is kept; the trainer waits only for that copy. "windowed"
    writes the files while the trainer waits, through the session's bounce buffers, and flushes and publishes later: it
    needs no further memory.
    """

    def __init__(self, staging: str = "staged", *, session: Session | None = None, durable: bool = True,
                 direct: bool | None = None) -> None:
        if staging not in STAGINGS:
            raise ValueError(f"staging is {staging!r}: expected one of {', '.join(STAGINGS)}")
        self._staging, self._session, self._durable, self._direct = staging, session, durable, direct
        self._copies: dict[str, Any] = {}
        self._last: Saving | None = None
        self._pid, self._is_closed = os.getpid(), False

    def save(self, state: Any, folder: str | os.PathLike[str], on_progress: OnProgress | None = None) -> Saving:
        """Like `checkpoint.save()`, but returns when the trainer may change the state. Waits for the previous save, and
        raises its error unless `result()` did."""
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
        save = Later(begun.whole if is_staged else begun.finish)
        staged = sum(copy.nbytes for copy in self._copies.values())
        self._last = Saving(Path(folder), time.monotonic() - began, staged, save)
        return self._last

    def close(self) -> None:
        """Waits for the last save, and frees the memory. Raises the save's error unless `result()` did."""
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
        if self._last is not None:
            self._last._save.wait()

    def _copied(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Copies each into memory of our own: a GPU's bytes into pinned memory, with all copies in flight at once."""
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
