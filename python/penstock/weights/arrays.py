# SPDX-License-Identifier: Apache-2.0

"""The array types for tensors: torch's, on any device, or numpy's."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from penstock import _native
from penstock.weights.tensors import (
    DTYPES, NAMES, OTHERS, StateError, Tensor, WeightsError, format_shape, named, row_major, span,
)

if TYPE_CHECKING:
    import numpy
    import torch

DLPACK_CPU, DLPACK_CUDA = 1, 2


class Memory(Protocol):
    """Memory of which arrays are views."""

    nbytes: int

    def view(self, at: int, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> Any:
        """The array that begins at offset `at`; a copy if that is not aligned for its type."""

    def bytes(self, begin: int, end: int) -> Any:
        """The buffer for penstock.File to read into."""


class Arrays(Protocol):
    """A framework's arrays on one device."""

    device: Any

    def dtype_of(self, tensor: Tensor) -> Any:
        """Raises WeightsError if the framework has no such type."""

    def dtype_named(self, wanted: Any) -> Any:
        """The framework's dtype to convert to; None for none. Raises WeightsError for an unknown dtype."""

    def here(self) -> Any: ...
    def dlpack_device(self) -> tuple[int, int] | None:
        """The device's type and number as DLPack has them; None if arrays are not made by DLPack."""

    def item_bytes(self, dtype: Any) -> int: ...
    def is_converted(self, dtype: Any, wanted: Any) -> bool: ...
    def memory(self, nbytes: int, page: int) -> Memory: ...
    def stream(self) -> int | None: ...
    def free_bytes(self) -> int | None: ...
    def on_host(self, content: Any) -> Any: ...
    def empty(self, dtype: Any, shape: tuple[int, ...]) -> Any: ...
    def nothing(self, dtype: Any, shape: tuple[int, ...]) -> Any: ...  # An array of a shape without elements.
    def part(self, array: Any, dim: int, start: int, stop: int) -> Any: ...
    def copy(self, array: Any) -> Any: ...
    def convert(self, array: Any, dtype: Any) -> Any: ...


def format_dtype(name: str, array: Any, *, any_order: bool = False) -> str:
    """The format's (or OTHERS') name for the dtype of a tensor or numpy array. Raises WeightsError, also for big-endian
    arrays, unless any_order."""
    if not hasattr(array, "dtype") or hasattr(array, "mask"):
        raise WeightsError(f"tensor {name!r} is of type {type(array).__name__}: expected a tensor, or an array without "
                           "a mask")
    dtype = NAMES.get(getattr(array.dtype, "name", str(array.dtype)).removeprefix("torch."))
    if dtype is None:
        raise WeightsError(f"tensor {name!r}: the format has no dtype {array.dtype}")
    if not (any_order or getattr(array.dtype, "isnative", True)):
        raise WeightsError(f"tensor {name!r}: {array.dtype!r} is big-endian: pass array.astype({array.dtype.name!r})")
    return dtype


def _check_plain(name: str, array: Any) -> None:
    """Refuses torch tensors without their own contiguous memory."""
    wrong = None
    if hasattr(array, "full_tensor"):
        wrong = "a DTensor, of which each rank has a piece: pass its full_tensor(), or save with penstock.checkpoint"
    elif getattr(array, "is_nested", False):
        wrong = "a nested tensor: pass its unbind() under names of their own"
    elif str(getattr(array, "layout", "torch.strided")) != "torch.strided":
        wrong = f"sparse ({array.layout}): pass its to_dense(), which may be much larger"
    elif getattr(array, "is_meta", False):
        raise StateError(f"tensor {name!r} is of the device \"meta\", which has no bytes: call to_empty(device=...) on "
                         "its module and fill it first")
    if wrong is not None:
        raise WeightsError(f"tensor {name!r} is {wrong}")


def described(name: str, array: Any) -> tuple[str, str, list[int]]:
    """(name, dtype, shape) of a tensor or numpy array, as in the format. Raises WeightsError."""
    _check_plain(name, array)
    dtype = format_dtype(name, array, any_order=True)
    if dtype in OTHERS:
        raise WeightsError(f"tensor {name!r}: the format has no dtype {array.dtype}")
    if not (array.is_contiguous() if hasattr(array, "is_contiguous") else array.flags.c_contiguous):
        raise WeightsError(f"tensor {name!r} is not contiguous: pass tensor.contiguous(), or a copy of the array")
    return name, dtype, list(format_shape(dtype, array.shape))


def _extent(tensor: Any) -> tuple[str, int, int]:
    """(device, begin, end) of a torch tensor's bytes."""
    begin = tensor.data_ptr()
    return str(tensor.device), begin, begin + span(tuple(tensor.shape), tensor.stride()) * tensor.element_size()


def sharing(tensors: Mapping[str, Any]) -> list[list[str]]:
    """Groups of names of torch tensors that share memory."""
    places = sorted((*_extent(tensor), name) for name, tensor in tensors.items() if hasattr(tensor, "data_ptr"))
    groups: list[list[str]] = []
    where, end = "", 0
    for device, begin, stop, name in places:
        if begin == stop:
            continue
        if device == where and begin < end:
            groups[-1].append(name)
            end = max(end, stop)
        else:
            groups.append([name])
            where, end = device, stop
    return [sorted(group) for group in groups if len(group) > 1]


def covering(tensors: Mapping[str, Any], group: Sequence[str]) -> str | None:
    """The first tensor of a group that covers all of the shared memory, or None."""
    extents = [_extent(tensors[name])[1:] for name in group]
    whole = min(begin for begin, _ in extents), max(end for _, end in extents)
    return next((name for name, extent in zip(group, extents, strict=True) if extent == whole
                 and tensors[name].nbytes == whole[1] - whole[0]), None)


def raw_bytes(array: Any) -> Any:
    """The bytes for penstock.File to write. The format is little-endian: other arrays are converted."""
    if hasattr(array, "detach"):
        return array.detach()
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array.reshape(-1).view("u1")


def is_numpy(framework: str) -> bool:
    return framework in ("np", "numpy")


def arrays_of(framework: str, device: Any) -> Arrays:
    """framework: "pt" (torch), or "np" (numpy), as safetensors calls them."""
    if framework in ("pt", "torch", "pytorch"):
        return TorchArrays(device)
    if not is_numpy(framework):
        raise WeightsError(f"framework {framework!r}: expected 'pt' or 'np'")
    if str(device) != "cpu":
        raise WeightsError(f"device {str(device)!r}: numpy's arrays are on 'cpu'")
    return NumpyArrays()


class TorchArrays:
    def __init__(self, device: Any) -> None:
        try:
            import torch
        except ModuleNotFoundError:
            raise WeightsError("torch is not installed: with framework=\"np\" the arrays are numpy's") from None
        with named(f"device {device!r}"):
            self.device = torch.device(device)
        self._dtypes: dict[str, torch.dtype] = {}

    def dtype_of(self, tensor: Tensor) -> torch.dtype:
        known = self._dtypes.get(tensor.dtype)
        if known is None:
            import torch

            known = getattr(torch, DTYPES.get(tensor.dtype) or OTHERS.get(tensor.dtype, ""), None)
        if known is None or (tensor.dtype == "F4" and (not tensor.shape or tensor.shape[-1] % 2 != 0)):
            raise WeightsError(f"{tensor.file}: tensor {tensor.name!r} is {tensor.dtype}, which this torch cannot hold")
        self._dtypes[tensor.dtype] = known
        return known

    def dtype_named(self, wanted: Any) -> torch.dtype | None:
        import torch

        found = getattr(torch, wanted, None) if isinstance(wanted, str) else wanted
        if found is not None and not isinstance(found, torch.dtype) or (found is None) != (wanted is None):
            raise WeightsError(f"dtype {wanted!r}: expected one of torch, as torch.bfloat16")
        return found

    def item_bytes(self, dtype: torch.dtype) -> int:
        return dtype.itemsize

    def is_converted(self, dtype: torch.dtype, wanted: torch.dtype | None) -> bool:
        # Types with two elements per byte are not converted: such tensors need their scales.
        return wanted is not None and dtype.is_floating_point and dtype != wanted and "float4" not in str(dtype)

    def here(self) -> Any:
        """The device, with its number: which one is the current one, each thread says for itself."""
        import torch

        if self.device.type == "cuda" and self.device.index is None:
            return torch.device("cuda", torch.cuda.current_device())
        return self.device

    def dlpack_device(self) -> tuple[int, int] | None:
        if self.device.type == "cpu":
            return DLPACK_CPU, 0
        return (DLPACK_CUDA, self.here().index) if self.device.type == "cuda" else None

    def memory(self, nbytes: int, page: int) -> _TorchMemory:
        import torch

        memory = torch.empty(nbytes + page, dtype=torch.uint8, device=self.device)
        if self.device.type == "cpu":
            _native.advise_large_pages(memory.data_ptr(), memory.nbytes)
        start = -memory.data_ptr() % page
        return _TorchMemory(memory[start:start + nbytes])

    def stream(self) -> int | None:
        """The stream after whose work memory may be used: it may just have been freed by other work."""
        if self.device.type != "cuda":
            return None
        import torch

        return int(torch.cuda.current_stream(self.device).cuda_stream)

    def free_bytes(self) -> int | None:
        if self.device.type != "cuda":
            return _native.available_memory()
        import torch

        reusable = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return int(torch.cuda.mem_get_info(self.device)[0] + reusable)

    def on_host(self, content: torch.Tensor) -> torch.Tensor:
        return content.cpu()

    def empty(self, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        import torch

        return torch.empty(shape, dtype=dtype, device=self.device)

    def nothing(self, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        import torch

        return torch.empty(0, dtype=dtype, device=self.device).view(shape)

    def part(self, array: torch.Tensor, dim: int, start: int, stop: int) -> torch.Tensor:
        return array.narrow(dim, start, stop - start)

    def copy(self, array: torch.Tensor) -> torch.Tensor:
        return array.clone()

    def convert(self, array: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return array.to(dtype)


class _TorchMemory:
    def __init__(self, memory: torch.Tensor) -> None:
        self._memory = memory
        self.nbytes = memory.nbytes
        self._typed: dict[torch.dtype, tuple[torch.Tensor, int]] = {}

    def view(self, at: int, dtype: torch.dtype, shape: tuple[int, ...],
             strides: tuple[int, ...] | None) -> torch.Tensor:
        size = dtype.itemsize
        if 0 in shape:  # Strides of empty shapes may exceed 64 bits.
            return self._memory[:0].view(dtype).view(shape)
        if at % size != 0:  # The format does not align tensors.
            return self._copy(at, dtype, shape, strides)
        typed = self._typed.get(dtype)
        if typed is None:
            viewed = self._memory[:self.nbytes // size * size].view(dtype)
            typed = self._typed[dtype] = viewed, int(viewed.storage_offset())
        # One call per tensor, of which there may be many thousands.
        return typed[0].as_strided(shape, row_major(shape) if strides is None else strides, typed[1] + at // size)

    def _copy(self, at: int, dtype: torch.dtype, shape: tuple[int, ...],
              strides: tuple[int, ...] | None) -> torch.Tensor:
        there = row_major(shape) if strides is None else strides
        copied = self._memory[at:at + span(shape, there) * dtype.itemsize].clone().view(dtype)
        return copied.as_strided(shape, there)

    def bytes(self, begin: int, end: int) -> torch.Tensor:
        return self._memory[begin:end]


class NumpyArrays:
    """Arrays without torch. Types that numpy lacks come from the package ml_dtypes, if installed."""

    device = "cpu"

    def dtype_of(self, tensor: Tensor) -> numpy.dtype[Any]:
        known = _numpy_dtype(tensor.dtype)
        if known is None:
            raise WeightsError(f"{tensor.file}: tensor {tensor.name!r} is {tensor.dtype}, which numpy cannot hold: "
                               "install ml_dtypes, or load it with torch")
        return known

    def dtype_named(self, wanted: Any) -> numpy.dtype[Any] | None:
        import numpy

        try:
            return None if wanted is None else numpy.dtype(wanted)
        except TypeError:
            raise WeightsError(f"dtype {wanted!r}: expected one of numpy, as 'float32'") from None

    def here(self) -> Any:
        return self.device

    def dlpack_device(self) -> None:
        return None

    def item_bytes(self, dtype: numpy.dtype[Any]) -> int:
        return dtype.itemsize

    def is_converted(self, dtype: numpy.dtype[Any], wanted: Any) -> bool:
        return wanted is not None and (dtype.kind == "f" or "float" in dtype.name) and dtype != wanted

    def memory(self, nbytes: int, page: int) -> _NumpyMemory:
        import numpy

        memory = numpy.empty(nbytes + page, numpy.uint8)
        address = memory.ctypes.data
        _native.advise_large_pages(address, memory.nbytes)
        start = -address % page
        return _NumpyMemory(memory[start:start + nbytes])

    def stream(self) -> None:
        return None

    def free_bytes(self) -> int | None:
        return _native.available_memory()

    def on_host(self, content: Any) -> Any:
        return content

    def empty(self, dtype: numpy.dtype[Any], shape: tuple[int, ...]) -> Any:
        import numpy

        return numpy.empty(shape, dtype)

    nothing = empty

    def part(self, array: Any, dim: int, start: int, stop: int) -> Any:
        return array[(slice(None),) * dim + (slice(start, stop),)]

    def copy(self, array: Any) -> Any:
        return array.copy(order="K")

    def convert(self, array: Any, dtype: Any) -> Any:
        return array.astype(dtype)


@cache
def _numpy_dtype(name: str) -> numpy.dtype[Any] | None:
    import numpy

    ours = DTYPES.get(name) or OTHERS.get(name, "")
    if name == "F4" or not ours:
        return None
    try:
        return numpy.dtype(ours)
    except TypeError:
        pass
    try:
        more = importlib.import_module("ml_dtypes")
    except ImportError:
        return None
    known = getattr(more, ours, None)
    return None if known is None else numpy.dtype(known)


class _NumpyMemory:
    def __init__(self, memory: Any) -> None:
        self._memory = memory
        self.nbytes = memory.nbytes

    def view(self, at: int, dtype: numpy.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...] | None) -> Any:
        import numpy

        if 0 in shape:
            return numpy.empty(shape, dtype)
        steps = None if strides is None else [stride * dtype.itemsize for stride in strides]
        array: Any = numpy.ndarray(shape, dtype, self._memory, at, steps)
        return array if array.flags.aligned else array.copy()

    def bytes(self, begin: int, end: int) -> Any:
        return self._memory[begin:end]
