# SPDX-License-Identifier: Apache-2.0

"""How bytes come into host memory: by the processor, or by a GPU's copy engine beside its other work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

AHEAD_BYTES = 256 << 20  # A GPU has as much queued as it copies while Python may keep the thread waiting, 5 ms.

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
    """One device's way into host memory. mark: returns a function that says whether the device has done what the caller
    had queued. set_aside: frees a batch without waiting for the copy; False if there is no room for it."""

    ahead_bytes: int

    def memory(self, nbytes: int) -> Any: ...
    def copy_at_once(self, batch: Batch) -> None: ...  # In the order of the caller's work.
    def settle(self) -> None: ...                      # Waits for the caller's work.
    def begin(self, batch: Batch) -> None: ...
    def finish(self, batch: Batch) -> None: ...        # Waits for its end.
    def mark(self) -> Callable[[], bool]: ...
    def set_aside(self, batch: Batch) -> bool: ...
    def renew(self) -> None: ...                       # Nothing is set aside any more.


class HostLane:
    """Copies by the processor. Whoever is about to change a batch copies it."""

    ahead_bytes = 0

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

    def mark(self) -> Callable[[], bool]:
        return lambda: True

    def set_aside(self, batch: Batch) -> bool:
        self.copy_at_once(batch)
        return True

    def renew(self) -> None:
        """It sets nothing aside."""


class CudaLane:
    """Copies on a stream of its own, of the lowest priority. spare_bytes: device memory to set bytes aside."""

    ahead_bytes = AHEAD_BYTES

    def __init__(self, device: Any, spare_bytes: int) -> None:
        self._torch, self._device = sys.modules["torch"], device
        self._stream = self._torch.cuda.Stream(device, priority=0)
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
        batch.event.synchronize()
        batch.end()

    def mark(self) -> Callable[[], bool]:
        is_reached: Callable[[], bool] = self._event().query
        return is_reached

    def set_aside(self, batch: Batch) -> bool:
        if self._used + batch.nbytes > self._spare.nbytes:
            return False
        aside = []
        for found, copy in batch.moves:
            there = self._spare[self._used:self._used + found.nbytes]
            there.copy_(found, non_blocking=True)
            aside.append((there, copy))
            self._used += found.nbytes
        batch.moves, batch.after, batch.is_free = aside, self._event(), True
        return True

    def renew(self) -> None:
        self._used = 0

    def _copy(self, batch: Batch) -> None:
        for found, copy in batch.moves:
            copy.copy_(found, non_blocking=True)
        batch.event = self._event()

    def _event(self) -> Any:
        event = self._torch.cuda.Event(blocking=True)
        event.record(self._torch.cuda.current_stream(self._device))
        return event
