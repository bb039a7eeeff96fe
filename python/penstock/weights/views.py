# SPDX-License-Identifier: Apache-2.0

"""The tensors of a run that was read, by DLPack: in Python nothing is made for one but itself and its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import _native
from penstock.weights.tensors import DTYPES

if TYPE_CHECKING:
    import torch


def views_of(memory: torch.Tensor, device: tuple[int, int], pieces: _native.Pieces, run: int,
             at: int) -> list[torch.Tensor]:
    """The run begins at offset `at` of the memory. Each tensor has a storage of its own, of its size, which keeps the
    memory.

    device: DLPack's type and number.
    """
    import torch

    make = getattr(torch._C, "_from_dlpack", None) or torch.utils.dlpack.from_dlpack  # One call in Python less.
    capsules, others = pieces.capsules(run, memory.data_ptr() + at, device, memory)
    tensors = list(map(make, capsules))
    for place, name, shape in others:
        tensor, dtype = tensors[place], getattr(torch, DTYPES[name])
        tensors[place] = tensor.view(dtype) if shape is None else tensor.clone().view(dtype).view(shape)
    return tensors
