# SPDX-License-Identifier: Apache-2.0

"""Memory for torch tensors that Penstock's direct paths can serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import _native
from penstock.errors import UnsupportedError
from penstock.sessions import Session, default_session

if TYPE_CHECKING:
    import torch

__all__ = ["memory_pool"]


def memory_pool(session: Session | None = None) -> torch.cuda.MemPool:
    """A torch.cuda.MemPool with memory allocated by the session:

        with torch.cuda.use_mem_pool(penstock.memory_pool()):
            tensor = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")

    With `nvidia_export=True` (experimental) a drive's DMA engine reaches this memory, by path p2pdma, which is
    impossible for torch's own allocations. Only one session per process can have pools, until it is closed: keep it
    open as long as the tensors. Raises UnsupportedError without a GPU, or for another session.
    """
    import torch

    owner = session or default_session()
    ordinals = [device["ordinal"] for device in owner.devices() if not device["stand_in"]]
    if not ordinals or not torch.cuda.is_available():
        raise UnsupportedError(f"make a memory pool: there is no GPU that torch and the session know "
                               f"({owner.info()['device_reason'] or 'torch.cuda.is_available() is False'})")
    if not _native.set_pool_session(owner._native, ordinals):
        raise UnsupportedError("make a memory pool: another session of this process has pools, which is open still")
    return torch.cuda.MemPool(_allocator().allocator())


_known: Any = None


def _allocator() -> Any:
    """One per process, never freed: torch calls it when pools are freed, at process exit."""
    import torch

    global _known
    if _known is None:
        _known = torch.cuda.memory.CUDAPluggableAllocator(_native.__file__, "penstock_torch_alloc",
                                                          "penstock_torch_free")
    return _known
