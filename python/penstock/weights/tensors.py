# SPDX-License-Identifier: Apache-2.0

"""What the rest of this package speaks of: tensors and parts of them as files describe them, dtypes and shapes, and how
what is wrong is told."""

from __future__ import annotations

import gc
import math
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NoReturn

# What the format calls dtypes, and what torch does.
DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16", "F16": "float16", "BF16": "bfloat16",
    "I32": "int32", "U32": "uint32", "F32": "float32", "F64": "float64", "I64": "int64", "U64": "uint64",
    "C64": "complex64", "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz", "F4": "float4_e2m1fn_x2",
}
OTHERS = {"C128": "complex128"}  # In torch's files alone.
SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4, "U32": 4, "F32": 4, "F64": 8,
         "I64": 8, "U64": 8, "C64": 8, "C128": 16, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "F8_E4M3FNUZ": 1,
         "F8_E5M2FNUZ": 1, "F4": 1}  # Of what torch calls an element: two of F4.
NAMES = {ours: name for name, ours in {**DTYPES, **OTHERS}.items()}  # And the other way round.


try:  # What programs catch that call safetensors.
    from safetensors import SafetensorError as SafetensorError
except ImportError:
    class SafetensorError(Exception):  # type: ignore[no-redef]
        """In place of safetensors' own, which is not installed."""


class WeightsError(SafetensorError, ValueError):
    """A file of weights that is not what the format says, or a plan that makes no sense."""


class StateError(WeightsError, RuntimeError):
    """Tensors that share memory, or names that files and module do not have alike: what safetensors and torch raise
    RuntimeError for."""


def raise_named(error: Exception, what: str) -> NoReturn:
    """What torch, numpy or the native module raised, as a WeightsError that names the tensor or file in one sentence.

    Errors of ours, of the system, and of memory that is short pass as they are.
    """
    if type(error).__module__.startswith("penstock") or isinstance(error, (OSError, MemoryError)):
        raise error
    if type(error).__name__ == "OutOfMemoryError":  # Of torch, which callers know by its class.
        raise error
    sentence = (str(error).splitlines() or [""])[0][:300]  # Behind the first line stand the places in C++.
    if "can't allocate memory" in sentence:
        raise MemoryError(f"{what}: {sentence}") from error
    raise WeightsError(f"{what}: {sentence or type(error).__name__}") from error


@contextmanager
def named(what: str) -> Iterator[None]:
    """Where others' code runs: see `raise_named()`."""
    try:
        yield
    except Exception as error:
        raise_named(error, what)


class Tensor(NamedTuple):
    """One tensor of a file: offset and nbytes in bytes, dtype as the format writes it ("BF16"), shape in elements."""

    name: str
    file: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    strides: tuple[int, ...] | None = None  # In elements; None where it lies row by row, as the format has it.
    chunks: tuple[Chunk, ...] = ()          # What it is put together from, where it lies in several pieces.


class Chunk(NamedTuple):
    """A piece of a tensor: `at` is where its first element is in the whole."""

    at: tuple[int, ...]
    piece: Tensor


@dataclass(frozen=True)
class Part:
    """A share of a tensor: elements `start` to `stop` of dimension `dim`, as tensor-parallel ranks take them."""

    dim: int
    start: int
    stop: int

    @staticmethod
    def of_rank(size: int, dim: int, rank: int, world: int) -> Part:
        """The share of one rank where `world` ranks share a dimension of `size` elements evenly.

        Raises WeightsError where they cannot.
        """
        if not 0 <= rank < world:
            raise WeightsError(f"rank {rank} of {world}: expected 0 to {world - 1}")
        if size % world != 0:
            raise WeightsError(f"a dimension of {size} cannot be shared evenly by {world} ranks")
        return Part(dim, size // world * rank, size // world * (rank + 1))


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of what lies row by row, in elements."""
    if len(shape) == 1:  # Of many thousands of tensors nearly all have one or two dimensions.
        return (1,)
    if len(shape) == 2:
        return (shape[1] or 1, 1)
    strides, stride = [1] * len(shape), 1
    for i in range(len(shape) - 1, -1, -1):
        strides[i] = stride
        stride *= max(shape[i], 1)
    return tuple(strides)


def span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from the first of an array to its last."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def nbytes_of(dtype: str, shape: tuple[int, ...]) -> int:
    """Of a tensor that lies row by row."""
    return math.prod(shape) * SIZES[dtype] // (2 if dtype == "F4" else 1)


def format_shape(dtype: str, shape: Sequence[int]) -> tuple[int, ...]:
    """Of F4, torch counts bytes, and the format the elements, two in each."""
    return (*shape[:-1], shape[-1] * 2) if dtype == "F4" and shape else tuple(shape)


class _Pauses:
    """How many blocks under way want no collection of garbage, in all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._was_enabled = False

    def begin(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._was_enabled = gc.isenabled()
            gc.disable()

    def end(self) -> None:
        with self._lock:
            self._count = max(self._count - 1, 0)  # A block that a fork cut was forgotten.
            if self._count == 0 and self._was_enabled:
                gc.enable()

    def after_fork(self) -> None:
        """In the child: the blocks are the parent's, and have no end here."""
        was_paused = self._count > 0 and self._was_enabled
        self.__init__()  # type: ignore[misc]
        if was_paused:
            gc.enable()


_pauses = _Pauses()
os.register_at_fork(after_in_child=_pauses.after_fork)


@contextmanager
def collecting_paused() -> Iterator[None]:
    """Without the collection of garbage. Of many thousands of objects that all live on, it takes longer than making."""
    _pauses.begin()
    try:
        yield
    finally:
        _pauses.end()
