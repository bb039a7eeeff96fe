# SPDX-License-Identifier: Apache-2.0

"""The memory into which batches are read."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from penstock.data.index import Numbers
from penstock.errors import UnsupportedError
from penstock.pools import memory_pool
from penstock.sessions import Session
from penstock.threads import Future

__all__ = ["Flight", "Slot"]

_WIDER = {"uint16": "int32", "uint32": "int64"}  # Of tokens that torch's embeddings do not take.


class Slot:
    """Memory of one batch, and `gap` bytes after it. device None: a numpy array; else a torch tensor."""

    def __init__(self, nbytes: int, gap: int, device: Any, pin_memory: bool, session: Session) -> None:
        self._event: Any = None
        self.memory = _allocate(nbytes + gap, device, pin_memory, session)
        self.is_gpu = getattr(self.memory, "is_cuda", False)
        self._is_pinned = pin_memory
        self._is_used_by_streams = self.is_gpu or pin_memory

    def release(self) -> None:
        """Called when the consumer has queued its last work with the memory on its stream."""
        if self._is_used_by_streams:
            import torch

            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record(torch.cuda.current_stream(self.memory.device if self.is_gpu else None))

    def is_free(self) -> bool:
        return self._event is None or bool(self._event.query())

    def wait(self) -> None:
        if self._event is not None:
            self._event.synchronize()

    def batch(self, lengths: Numbers, dtype: np.dtype[Any] | None) -> Any:
        """For tokens [records, tokens]; for bytes (bytes, places): where each record begins, and the last one ends."""
        filled = self.memory[:int(lengths.sum())]
        if dtype is None:
            return filled, np.concatenate(([0], np.cumsum(lengths)))
        if isinstance(filled, np.ndarray):
            return filled.view(dtype).reshape(len(lengths), -1)
        import torch

        tokens = filled.view(getattr(torch, dtype.name)).view(len(lengths), -1)
        if dtype.name not in _WIDER:
            return tokens
        wider = getattr(torch, _WIDER[dtype.name])
        return torch.empty(tokens.shape, dtype=wider, device=tokens.device, pin_memory=self._is_pinned).copy_(tokens)


class Flight:
    """A batch that is being read into a slot."""

    def __init__(self, slot: Slot, records: Numbers, deadline: float | None) -> None:
        self.slot, self.records, self.deadline = slot, records, deadline
        self.reading: Future[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing writes into the slot any more."""
        return self.reading is None or self.reading.done()


def _allocate(nbytes: int, device: Any, pin_memory: bool, session: Session) -> Any:
    if device is None and not pin_memory:
        return np.empty(nbytes, np.uint8)
    import torch

    if pin_memory:
        if not torch.cuda.is_available():
            raise UnsupportedError("pin memory for batches: torch.cuda.is_available() is False; leave pin_memory out")
        return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
    kind = torch.device(device)
    # A drive's DMA engine reaches only memory that the session exports.
    is_exported = kind.type == "cuda" and session.setting("nvidia_export")[0] == "true"
    with torch.cuda.use_mem_pool(memory_pool(session), kind) if is_exported else contextlib.nullcontext():
        return torch.empty(nbytes, dtype=torch.uint8, device=kind)
