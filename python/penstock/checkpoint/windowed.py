# SPDX-License-Identifier: Apache-2.0

"""`dcp.async_save` without a copy of the state:

    writer = WindowedWriter("checkpoints/step-100")
    future = dcp.async_save(state, storage_writer=writer)       # returns when the state may change
    print(writer.stopped_s)

The trainer waits until its files are written, through the session's bounce buffers; flushing and publishing continue in
the background. With a copy: BlockingAsyncStager(cache_staged_state_dict=True) of torch.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from torch.distributed.checkpoint.staging import AsyncStager

from penstock.checkpoint.distributed import Writer
from penstock.checkpoint.layout import CheckpointError
from penstock.threads import Event

__all__ = ["WindowedWriter"]

POLL_S = 0.02
EXECUTOR = "AsyncCheckpointExecutor"  # Torch's name of the thread that saves, which ends with the save.


class WindowedWriter(Writer, AsyncStager):
    """A Writer that is also torch's AsyncStager. stopped_s: how long the trainer waited for the last save."""

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        super().__init__(path, **options)
        self.stopped_s = 0.0
        self._began = 0.0
        self._taken = Event()

    def stage(self, state_dict: Any) -> Any:
        """For torch's AsyncStager: returns the state unchanged."""
        self._began = time.monotonic()
        self._taken.clear()
        return state_dict

    def synchronize_staging(self) -> None:
        """Waits until the bytes are in the files, or the save has failed, which its future reports."""
        while not self._taken.wait(POLL_S) and any(each.name.startswith(EXECUTOR) for each in threading.enumerate()):
            pass
        self.stopped_s = time.monotonic() - self._began

    def close(self) -> None:
        """Does nothing: it holds no resources."""

    def _on_written(self) -> None:
        self._taken.set()

    def __reduce__(self) -> Any:
        raise CheckpointError("WindowedWriter reads the state where it is, which another process cannot: use "
                              "AsyncCheckpointerType.THREAD, or Writer")
