# SPDX-License-Identifier: Apache-2.0

"""How bytes come into host memory: by the processor, or by a GPU's copy engine beside its other work."""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol

AHEAD_BYTES = 512 << 20  # A GPU copies longer than Python may keep the thread waiting, 5 ms.
POLL_S = 0.001  # Each look takes Python's lock from the trainer.

Owners = frozenset[int]
Move = tuple[Any, Any]  # Bytes, and where they go.


class Batch:
    """Pieces of tensors that are copied together. owners: whose updates change them. is_free: they may change;
    is_whole: the copy has all bytes."""

    def __init__(self, lane: Lane, owners: Owners) -> None:
        self.lane, self.owners = lane, owners
        self.moves: list[Move] = []
        self.nbytes = 0
        self.is_free = self.is_whole = False
        self.after: Any = None   # The GPU has set its bytes aside when it reaches this event.
        self.event: Any = None   # The GPU has copied them to host memory.

    def end(self) -> None:
        self.is_free = self.is_whole = True


class Lane(Protocol):
    """One device's way into host memory. spare_bytes: bytes whose copy need not begin before somebody changes them.
    set_aside: frees a batch whose copy nobody has begun, and begins it. is_freed: whether the caller may change a batch
    that was begun, by work of the device that it queues from now on."""

    ahead_bytes: int
    spare_bytes: int

    def memory(self, nbytes: int) -> Any: ...
    def copy_at_once(self, batch: Batch) -> None: ...  # In the order of the caller's work.
    def settle(self) -> None: ...                      # Waits for the caller's work.
    def begin(self, batch: Batch) -> None: ...
    def finish(self, batch: Batch) -> None: ...        # Waits for its end.
    def set_aside(self, batch: Batch) -> None: ...
    def is_freed(self, batch: Batch) -> bool: ...
    def renew(self) -> None: ...                       # Nothing is set aside any more.


class HostLane:
    """Copies by the processor. Whoever is about to change a batch copies it."""

    ahead_bytes = 0
    spare_bytes = sys.maxsize

    def memory(self, nbytes: int) -> Any:
        import numpy

        return numpy.empty(nbytes, "u1")

    def begin(self, batch: Batch) -> None:
        import numpy

        for found, copy in batch.moves:
            numpy.copyto(copy, numpy.frombuffer(found.numpy() if hasattr(found, "data_ptr") else found, "u1"))

    def copy_at_once(self, batch: Batch) -> None:
        self.begin(batch)
        batch.end()

    def settle(self) -> None:
        """Nothing is queued."""

    def finish(self, batch: Batch) -> None:
        batch.end()

    def set_aside(self, batch: Batch) -> None:
        self.copy_at_once(batch)

    def is_freed(self, batch: Batch) -> bool:
        return batch.is_free

    def renew(self) -> None:
        """It sets nothing aside."""


class CudaLane:
    """Copies on a stream of its own, of the lowest priority. spare_bytes: device memory to set bytes aside."""

    ahead_bytes = AHEAD_BYTES

    def __init__(self, device: Any, spare_bytes: int) -> None:
        self._torch, self._device = sys.modules["torch"], device
        self._stream = self._torch.cuda.Stream(device, priority=0)
        self.spare_bytes = spare_bytes
        self._spare = self._torch.empty(spare_bytes, dtype=self._torch.uint8, device=device)
        self._used = 0

    def memory(self, nbytes: int) -> Any:
        return self._torch.empty(nbytes, dtype=self._torch.uint8, pin_memory=True)

    def copy_at_once(self, batch: Batch) -> None:
        self._copy(batch)
        batch.is_free = True

    def settle(self) -> None:
        self._torch.cuda.current_stream(self._device).synchronize()

    def begin(self, batch: Batch) -> None:
        with self._torch.cuda.stream(self._stream):
            if batch.after is not None:
                self._stream.wait_event(batch.after)
            self._copy(batch)

    def finish(self, batch: Batch) -> None:
        while not batch.event.query():
            time.sleep(POLL_S)
        batch.end()

    def set_aside(self, batch: Batch) -> None:
        if self._used + batch.nbytes <= self.spare_bytes:
            self._move_aside(batch)
        self.begin(batch)
        if batch.after is None:
            self._wait_for_copy(batch)
        batch.is_free = True

    def is_freed(self, batch: Batch) -> bool:
        if not batch.is_free and batch.event is not None:
            self._wait_for_copy(batch)
            batch.is_free = True
        return batch.is_free

    def _wait_for_copy(self, batch: Batch) -> None:
        self._torch.cuda.current_stream(self._device).wait_event(batch.event)

    def _move_aside(self, batch: Batch) -> None:
        aside = []
        for found, copy in batch.moves:
            there = self._spare[self._used:self._used + found.nbytes]
            there.copy_(found, non_blocking=True)
            aside.append((there, copy))
            self._used += found.nbytes
        batch.moves, batch.after = aside, self._event()

    def renew(self) -> None:
        self._used = 0

    def _copy(self, batch: Batch) -> None:
        for found, copy in batch.moves:
            copy.copy_(found, non_blocking=True)
        batch.event = self._event()

    def _event(self) -> Any:
        """An event to poll: of those that let a thread sleep the driver takes some 56, and has whoever records another
        one wait until the first copies have ended."""
        event = self._torch.cuda.Event()
        event.record(self._torch.cuda.current_stream(self._device))
        return event
