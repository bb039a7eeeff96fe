# SPDX-License-Identifier: Apache-2.0

"""The bytes of tensors and arrays in place, and the order of GPU work on them."""

from __future__ import annotations

import sys
from typing import Any

from penstock.checkpoint.layout import PIECE_BYTES, REQUEST_BYTES


def bytes_of(found: Any) -> Any:
    """The bytes of a row-major tensor; for any other, of a copy."""
    if hasattr(found, "__array_interface__") and not hasattr(found, "data_ptr"):
        return (found if found.flags.c_contiguous else found.copy()).reshape(-1).view("u1")
    if not hasattr(found, "data_ptr"):
        view = memoryview(found)
        return view.cast("B") if view.nbytes else memoryview(b"")  # An empty view cannot be cast.
    import torch

    if not hasattr(found, "nbytes"):
        raise TypeError(f"torch {torch.__version__} is too old: its tensors have no nbytes, as those of torch 2.1 and "
                        'later have; install that, or save tensor.numpy() and load with framework="np"')
    found = found.detach()
    if found.is_conj() or found.is_neg() or not found.is_contiguous():
        found = found.resolve_conj().resolve_neg().contiguous()
    return found.reshape(-1).view(torch.uint8)


def request_bytes(found: Any) -> int:
    """The largest request: for host memory, bytes that stay in CPU caches until their checksum is computed."""
    return REQUEST_BYTES if getattr(found, "is_cuda", False) else PIECE_BYTES


class Order:
    """The GPU work that the creating thread had queued on its current streams. Other threads, with other current
    streams, order themselves after it."""

    def __init__(self) -> None:
        torch = sys.modules.get("torch")
        self._events: list[Any] = []
        if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
            holders = [i for i in range(torch.cuda.device_count()) if torch.cuda.memory_reserved(i) > 0]
            self._events = [(i, torch.cuda.current_stream(i).record_event()) for i in holders]

    def come_behind(self) -> None:
        """Makes the current streams of this thread wait for the recorded events. To be called once per thread."""
        for device, event in self._events:
            import torch

            torch.cuda.current_stream(device).wait_event(event)
