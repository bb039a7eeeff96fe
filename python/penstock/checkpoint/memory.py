# SPDX-License-Identifier: Apache-2.0

"""The bytes of tensors and arrays where they are, and the order of what GPUs do with them."""

from __future__ import annotations

import sys
from typing import Any

from penstock.checkpoint.layout import PIECE_BYTES, REQUEST_BYTES


def bytes_of(found: Any) -> Any:
    """Of what lies row by row; of a tensor that does not, those of a copy."""
    if hasattr(found, "__array_interface__") and not hasattr(found, "data_ptr"):
        return (found if found.flags.c_contiguous else found.copy()).reshape(-1).view("u1")
    if not hasattr(found, "data_ptr"):
        view = memoryview(found)
        return view.cast("B") if view.nbytes else memoryview(b"")  # Of nothing no cast is allowed.
    import torch

    return found.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def request_bytes(found: Any) -> int:
    """The most that one request is to move: of host memory what caches hold until its checksum is made."""
    return REQUEST_BYTES if getattr(found, "is_cuda", False) else PIECE_BYTES


class Order:
    """What GPUs had been told to do by the thread that makes this, on its current streams. Other threads, whose current
    streams are others, come behind it."""

    def __init__(self) -> None:
        torch = sys.modules.get("torch")
        self._events: list[Any] = []
        if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
            holders = [i for i in range(torch.cuda.device_count()) if torch.cuda.memory_reserved(i) > 0]
            self._events = [(i, torch.cuda.current_stream(i).record_event()) for i in holders]

    def come_behind(self) -> None:
        """To be called once by a thread."""
        for device, event in self._events:
            import torch

            torch.cuda.current_stream(device).wait_event(event)
