# SPDX-License-Identifier: Apache-2.0

"""The calls of safetensors that speak of bytes and addresses, and of open files."""

from __future__ import annotations

import ctypes
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from penstock import _native
from penstock.sessions import default_session
from penstock.weights.files import copied, mode_over
from penstock.weights.headers import Weights
from penstock.weights.loaders import STOCK_ALIGNMENT
from penstock.weights.opened import safe_open
from penstock.weights.tensors import DTYPES, NAMES, WeightsError, format_shape, named, nbytes_of


class TensorSpec:
    """A tensor by its address: dtype as torch and numpy name it ("bfloat16") or as the format does, shape in elements.

    The memory must stay until the call that writes it returns.
    """

    __slots__ = ("data_len", "data_ptr", "dtype", "shape")

    def __init__(self, *, dtype: str, shape: Sequence[int], data_ptr: int, data_len: int) -> None:
        known = dtype if dtype in DTYPES else NAMES.get(dtype)
        if known not in DTYPES:
            raise WeightsError(f"the format has no dtype {dtype!r}")
        self.dtype, self.shape = known, list(format_shape(known, shape))
        self.data_ptr, self.data_len = data_ptr, data_len


def serialize(tensor_dict: Mapping[str, TensorSpec], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file."""
    header, placed = _laid_out(tensor_dict, metadata)
    return b"".join([header, *(ctypes.string_at(tensor_dict[name].data_ptr, tensor_dict[name].data_len)
                               for name, _, _ in placed)])


def serialize_file(tensor_dict: Mapping[str, TensorSpec], filename: str | os.PathLike[str],
                   metadata: Mapping[str, str] | None = None) -> None:
    """Writes a safetensors file, which appears when it is whole and on the disk."""
    header, placed = _laid_out(tensor_dict, metadata)
    with default_session().create(filename, replace=True, mode=mode_over(filename)) as file:
        file.write(header)
        for name, begin, _ in placed:
            spec = tensor_dict[name]
            if spec.data_len > 0:
                file.write(_native.Pointer(spec.data_ptr, spec.data_len), begin)


def _laid_out(tensors: Mapping[str, TensorSpec],
              metadata: Mapping[str, str] | None) -> tuple[bytes, list[tuple[str, int, int]]]:
    for name, spec in tensors.items():
        if not hasattr(spec, "data_ptr"):
            raise TypeError(f"tensor {name!r} is of type {type(spec).__name__}: expected a TensorSpec")
        if spec.data_len != nbytes_of(spec.dtype, tuple(spec.shape)):
            raise WeightsError(f"tensor {name!r} of {spec.dtype} and shape {spec.shape} does not have {spec.data_len} "
                               "bytes")
    with named("serialize"):
        entries = [(name, spec.dtype, list(spec.shape)) for name, spec in tensors.items()]
        return _native.make_safetensors_header(entries, None if metadata is None else dict(metadata), STOCK_ALIGNMENT)


def deserialize(bytes: bytes) -> list[tuple[str, dict[str, Any]]]:  # noqa: A002, the name that it replaces.
    """[(name, {"shape", "dtype", "data"})] of a file's bytes."""
    with copied(io.BytesIO(bytes)) as file:
        tensors = list(Weights([file]).tensors.values())
    return [(tensor.name, {"shape": list(tensor.shape), "dtype": tensor.dtype,
                           "data": bytearray(bytes[tensor.offset:tensor.offset + tensor.nbytes])})
            for tensor in tensors]


@contextmanager
def _safe_open_handle(f: Any, framework: str, device: Any = "cpu") -> Iterator[safe_open]:
    """`safe_open` of an open file. Of one that is no file of the system a copy is read."""
    try:
        number = f.fileno()
    except (AttributeError, OSError):
        with copied(f) as file, safe_open(file, framework, device) as opened:
            yield opened
    else:
        with safe_open(f"/proc/self/fd/{number}", framework, device) as opened:
            yield opened
