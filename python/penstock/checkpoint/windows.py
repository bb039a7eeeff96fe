# SPDX-License-Identifier: Apache-2.0

"""The bytes of a tensor or array, and pinned host memory through which those of a GPU come and go."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.checkpoint.layout import PIECE_BYTES

if TYPE_CHECKING:
    import torch


def bytes_of(found: Any) -> Any:
    """Of what lies row by row; of a tensor that does not, those of a copy."""
    if hasattr(found, "__array_interface__") and not hasattr(found, "data_ptr"):
        return (found if found.flags.c_contiguous else found.copy()).reshape(-1).view("u1")
    if not hasattr(found, "data_ptr"):
        view = memoryview(found)
        return view.cast("B") if view.nbytes else memoryview(b"")  # Of nothing no cast is allowed.
    import torch

    return found.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def order_of_gpus() -> Any:
    """What the GPU has been told to do by the caller, which is to be done before; None where there is none."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    event = torch.cuda.Event()
    event.record()
    return event


class Window:
    """16 MiB of one thread, made when they are needed: pinned for the bytes of a GPU."""

    def __init__(self, ready: Any) -> None:
        self._ready = ready
        self._memory: torch.Tensor | None = None
        self._plain: bytearray | None = None
        self._streams: dict[Any, Any] = {}

    def taken(self, piece: Any) -> Any:
        """A copy of the piece's bytes in host memory, until the next call: the program may change its own meanwhile."""
        if not getattr(piece, "is_cuda", False):
            if self._plain is None:
                self._plain = bytearray(PIECE_BYTES)
            self._plain[:piece.nbytes] = memoryview(piece.numpy() if hasattr(piece, "numpy") else piece)
            return memoryview(self._plain)[:piece.nbytes]
        there = self._memory_for(piece)
        self._copy(there, piece, piece.device)
        return there

    @contextmanager
    def filled(self, piece: Any) -> Iterator[Any]:
        """Host memory for the piece's bytes, which are there when the block has ended well."""
        if not getattr(piece, "is_cuda", False):
            yield piece
            return
        there = self._memory_for(piece)
        yield there
        self._copy(piece, there, piece.device)

    def _memory_for(self, piece: Any) -> Any:
        import torch

        if self._memory is None:
            self._memory = torch.empty(PIECE_BYTES, dtype=torch.uint8, pin_memory=True)
        return self._memory[:piece.numel()]

    def _copy(self, to: Any, source: Any, device: Any) -> None:
        import torch

        stream = self._streams.get(device)
        if stream is None:
            stream = self._streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            stream.wait_event(self._ready)
        with torch.cuda.stream(stream):
            to.copy_(source, non_blocking=True)
        stream.synchronize()
