# SPDX-License-Identifier: Apache-2.0

"""Tensors of a state as consecutive pieces: how they are cut, and where the bytes of each chunk lie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import mul
from typing import Any, NamedTuple

from penstock.checkpoint.layout import PIECE_BYTES, CheckpointError, Chunk, SavedTensor
from penstock.checkpoint.memory import bytes_of
from penstock.weights.tensors import nbytes_of, row_major

Described = Mapping[str, tuple[str, tuple[int, ...]]]  # dtype and shape of each tensor.


class Piece(NamedTuple):
    """The bytes `begin` to `begin + nbytes` of a tensor, as the chunk that they are: see `Chunk`."""

    name: str
    at: tuple[int, ...]
    shape: tuple[int, ...]
    begin: int
    nbytes: int


def whole(name: str, dtype: str, shape: tuple[int, ...]) -> Piece:
    return Piece(name, (0,) * len(shape), shape, 0, nbytes_of(dtype, shape))


def cut(name: str, dtype: str, shape: tuple[int, ...]) -> list[Piece]:
    """Whole rows in each piece, of whatever dimension has rows of at most 16 MiB; as many as fit. An empty tensor is
    one piece."""
    if nbytes_of(dtype, shape) <= PIECE_BYTES:
        return [whole(name, dtype, shape)]
    dim = next(i for i in range(len(shape)) if nbytes_of(dtype, shape[i + 1:]) <= PIECE_BYTES)
    outer, inner = shape[:dim], shape[dim + 1:]
    pairs = nbytes_of(dtype, (2, *inner))  # Of F4 a row may be half a byte.
    rows = 2 * PIECE_BYTES // pairs
    found: list[Piece] = []
    for i in range(math.prod(outer)):
        at = tuple(i // stride % size for size, stride in zip(outer, row_major(outer), strict=True))
        for first in range(0, shape[dim], rows):
            mine = (1,) * dim + (min(rows, shape[dim] - first), *inner)
            begin = found[-1].begin + found[-1].nbytes if found else 0
            found.append(Piece(name, (*at, first, *(0,) * len(inner)), mine, begin, nbytes_of(dtype, mine)))
    return found


def sources_of(described: Described, tensors: Mapping[str, Any]) -> dict[Piece, Any]:
    """Each tensor as one piece."""
    return {whole(name, *described[name]): tensor for name, tensor in tensors.items()}


def cut_sources_of(described: Described, tensors: Mapping[str, Any]) -> dict[Piece, Any]:
    """The bytes of the pieces of each tensor. What does not lie row by row is copied."""
    found: dict[Piece, Any] = {}
    for name, tensor in tensors.items():
        content = bytes_of(tensor)
        found.update({piece: content[piece.begin:piece.begin + piece.nbytes]
                      for piece in cut(name, *described[name])})
    return found


def placed(name: str, tensor: SavedTensor) -> list[tuple[Chunk, int]]:
    """Each chunk, and where its bytes begin in those of the tensor. Raises CheckpointError if they do not follow each
    other and fill it."""
    strides, elements, begin, found = row_major(tensor.shape), 0, 0, []
    for chunk in tensor.chunks:
        if not _is_consecutive(chunk, tensor.shape) or elements != sum(map(mul, chunk.at, strides)):
            break
        found.append((chunk, begin))
        elements, begin = elements + math.prod(chunk.shape), begin + chunk.extent.nbytes
    if not found or len(found) < len(tensor.chunks) or begin != nbytes_of(tensor.dtype, tensor.shape):
        raise CheckpointError(f"tensor {name!r} of shape {list(tensor.shape)}: its chunks do not fill it row by row")
    return found


def _is_consecutive(chunk: Chunk, shape: Sequence[int]) -> bool:
    if len(chunk.shape) != len(shape) or len(chunk.at) != len(shape):
        return False
    if any(at + size > whole for at, size, whole in zip(chunk.at, chunk.shape, shape, strict=True)):
        return False
    parts = [i for i, size in enumerate(chunk.shape) if size != shape[i]]
    return not parts or all(size == 1 for size in chunk.shape[:parts[-1]])
