# SPDX-License-Identifier: Apache-2.0

"""How bytes come into host memory: by the processor, or by a GPU's copy engine beside its other work."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any, Protocol

AHEAD_BYTES = 64 << 20  # A GPU copies it in a millisecond or two: whoever waits for the whole device waits for it, too.
POLL_S = 0.001  # Each look takes Python's lock from the trainer.

Owners = frozenset[int]
Move = tuple[Any, Any]  # Bytes, and where they go.


class Batch:
    """Pieces of tensors that are copied together. owners: whose updates change them. place: where they may be set aside
    in the device's spare memory. is_whole: the copy has all bytes. behind: streams whose further work comes behind what
    reads the bytes where they are."""

    def __init__(self, lane: Lane, owners: Owners) -> None:
        self.lane, self.owners = lane, owners
        self.moves: list[Move] = []
        self.nbytes = self.place = 0
        self.is_whole = False
        self.after: Any = None   # The GPU has set its bytes aside when it reaches this event.
        self.event: Any = None   # The GPU has copied them to host memory.
        self.behind: set[Any] = set()

    def end(self) -> None:
        self.is_whole = True


class Lane(Protocol):
    """One device's way into host memory. spare_bytes: bytes whose copy need not begin before somebody changes them.
    ahead_bytes: how many to begin at a time. stream: that of the caller; None where there are none. set_aside: frees a
    batch whose copy nobody has begun. is_freed: whether the caller may change a batch that was begun, by work that its
    stream is given from now on."""

    ahead_bytes: int
    spare_bytes: int

    def memory(self, nbytes: int) -> Any: ...
    def stream(self) -> Any: ...
    def copy_at_once(self, batch: Batch) -> None: ...  # In the order of the caller's work.
    def settle(self) -> None: ...                      # Waits for the caller's work.
    def begin(self, batches: Iterable[Batch]) -> None: ...
    def finish(self, batch: Batch) -> None: ...        # Waits for its end.
    def set_aside(self, batch: Batch) -> None: ...
    def is_freed(self, batch: Batch) -> bool: ...
    def renew(self) -> None: ...                       # Copies come behind the caller's work.


class HostLane:
    """Copies by the processor. Whoever is about to change a batch copies it."""

    ahead_bytes = 0
    spare_bytes = sys.maxsize

    def memory(self, nbytes: int) -> Any:
        import numpy

        return numpy.empty(nbytes, "u1")

    def stream(self) -> None:
        """The processor has none."""

    def begin(self, batches: Iterable[Batch]) -> None:
        import numpy

        for found, copy in (move for batch in batches for move in batch.moves):
            numpy.copyto(copy, numpy.frombuffer(found.numpy() if hasattr(found, "data_ptr") else found, "u1"))

    def copy_at_once(self, batch: Batch) -> None:
        self.begin([batch])
        batch.end()

    def settle(self) -> None:
        """Nothing is queued."""

    def finish(self, batch: Batch) -> None:
        batch.end()

    def set_aside(self, batch: Batch) -> None:
        self.copy_at_once(batch)

    def is_freed(self, batch: Batch) -> bool:
        return batch.is_whole

    def renew(self) -> None:
        """Nothing is queued."""


class CudaLane:
    """Copies on a stream of its own, of the lowest priority. spare_bytes: device memory to set bytes aside."""

    ahead_bytes = AHEAD_BYTES

    def __init__(self, device: Any, spare_bytes: int) -> None:
        self._torch, self._device = sys.modules["torch"], device
        self._own = self._torch.cuda.Stream(device, priority=0)
        self.spare_bytes = spare_bytes
        self._spare = self._torch.empty(spare_bytes, dtype=self._torch.uint8, device=device)

    def memory(self, nbytes: int) -> Any:
        return self._torch.empty(nbytes, dtype=self._torch.uint8, pin_memory=True)

    def stream(self) -> Any:
        return self._torch.cuda.current_stream(self._device)

    def copy_at_once(self, batch: Batch) -> None:
        self._copy(batch, self.stream())

    def settle(self) -> None:
        self.stream().synchronize()

    def begin(self, batches: Iterable[Batch]) -> None:
        with self._torch.cuda.stream(self._own):
            for batch in batches:
                if batch.after is not None:
                    self._own.wait_event(batch.after)
                self._copy(batch, self._own)

    def finish(self, batch: Batch) -> None:
        while not batch.event.query():
            time.sleep(POLL_S)
        batch.end()

    def set_aside(self, batch: Batch) -> None:
        aside, at = [], batch.place
        for found, copy in batch.moves:
            aside.append((self._spare[at:at + found.nbytes], copy))
            at += found.nbytes
        self._queue([(found, there) for (found, _), (there, _) in zip(batch.moves, aside, strict=True)])
        batch.moves, batch.after = aside, self._event(self.stream())

    def is_freed(self, batch: Batch) -> bool:
        stream, event = self.stream(), batch.after or batch.event
        if event is not None:
            stream.wait_event(event)
            batch.behind.add(stream)
        return event is not None

    def renew(self) -> None:
        self._own.wait_stream(self.stream())

    def _copy(self, batch: Batch, stream: Any) -> None:
        if batch.moves:
            self._queue(batch.moves)
        batch.event = self._event(stream)

    def _queue(self, moves: list[Move]) -> None:
        """By one call: with one a move, small ones take longer to queue than to copy."""
        if len(moves) == 1:
            [(found, copy)] = moves
            copy.copy_(found, non_blocking=True)
        else:
            self._torch._foreach_copy_([copy for _, copy in moves], [found for found, _ in moves], non_blocking=True)

    def _event(self, stream: Any) -> Any:
        """An event to poll: of those that let a thread sleep the driver takes some 56, and has whoever records another
        one wait until the first copies have ended."""
        event = self._torch.cuda.Event()
        event.record(stream)
        return event
