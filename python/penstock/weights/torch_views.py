# SPDX-License-Identifier: Apache-2.0

"""What torch's pickles describe, as records: tensors as views of storages, dtypes, devices, sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from penstock.weights.pickles import PLAIN
from penstock.weights.stands import Stand, Unknown, UnknownGlobal
from penstock.weights.tensors import NAMES, SIZES, WeightsError, row_major, span

DIMENSIONS_MAX = 64
ELEMENTS_MAX = 1 << 62

STORAGES = {"Double": "F64", "Float": "F32", "Half": "F16", "Long": "I64", "Int": "I32", "Short": "I16", "Char": "I8",
            "Byte": "U8", "Bool": "BOOL", "BFloat16": "BF16", "ComplexDouble": "C128", "ComplexFloat": "C64"}
# Of these nothing is read but the names, as of the settings that a checkpoint keeps beside its tensors.
OTHER_DTYPES = ("complex32", "bits8", "bits16", "bits1x8", "bits2x4", "bits4x2", "qint8", "qint32", "quint8",
                "quint2x4", "quint4x2", *(f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)))
SCHEMES = ("per_tensor_affine", "per_tensor_symmetric", "per_channel_affine", "per_channel_symmetric",
           "per_channel_affine_float_qparams")
LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "_mkldnn", "jagged")
DTENSOR = "torch.distributed.tensor.DTensor"

ANEW = "load it with torch.load and save its state_dict with torch.save"


class TorchName(str):
    """What torch has an object for: "torch.float32", "cpu"."""


class Dtype(TorchName):
    pass


class Device(TorchName):
    pass


@dataclass(frozen=True, eq=False)
class Meta:
    """A tensor of the device "meta", which has no bytes."""

    dtype: Dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool


class Size(tuple[int, ...]):
    """In place of torch.Size."""


@dataclass(frozen=True, eq=False)
class StorageKind:
    """A class of storages: the dtype that it has, None for bytes."""

    dtype: str | None


@dataclass(frozen=True, eq=False)
class Storage:
    """Memory that was saved: `nbytes` at `offset` of the file. location: the device that it was on, as "cuda:1"."""

    key: str
    dtype: str | None
    offset: int
    nbytes: int
    location: str


@dataclass(frozen=True, eq=False)
class View:
    """A tensor as torch describes it: shape, strides and offset in elements of its storage."""

    storage: Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool
    is_conjugate: bool = False
    is_negative: bool = False
    is_parameter: bool = False
    attributes: dict[str, Any] | None = None

    @property
    def nbytes(self) -> int:
        """From the first of its elements to the last."""
        return span(self.shape, self.strides) * SIZES[self.dtype]


def is_row_major(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Where a dimension has one element, its stride says nothing."""
    expected = row_major(shape)
    return 0 in shape or all(size == 1 or stride == wanted
                             for size, stride, wanted in zip(shape, strides, expected, strict=True))


def is_count(value: Any, most: int = ELEMENTS_MAX) -> bool:
    return type(value) is int and 0 <= value <= most


def checked_size(values: Any = ()) -> Size:
    if not isinstance(values, (tuple, list)) or len(values) > DIMENSIONS_MAX or not all(map(is_count, values)):
        raise WeightsError("a tensor has a shape or strides that make no sense")
    return Size(values)


def _view(storage: Any, offset: Any, shape: Any, strides: Any, requires_grad: Any, dtype: str | None,
          flags: Any) -> View:
    shape, strides = checked_size(shape), checked_size(strides)
    if not isinstance(storage, Storage) or dtype is None or not is_count(offset) or len(shape) != len(strides):
        raise WeightsError("a tensor's description makes no sense")
    elements = 1
    for size in shape:
        elements *= max(size, 1)
    if elements > ELEMENTS_MAX or (offset + span(shape, strides)) * SIZES[dtype] > storage.nbytes:
        raise WeightsError(f"a tensor of shape {list(shape)} and strides {list(strides)} at {offset} reaches beyond "
                           f"its storage {storage.key!r} of {storage.nbytes} bytes")
    known = flags if isinstance(flags, dict) else {}
    return View(storage, dtype, offset, shape, strides, requires_grad is True, known.get("conj") is True,
                known.get("neg") is True)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, requires_grad: Any = False, hooks: Any = None,
            flags: Any = None) -> View:
    return _view(storage, offset, shape, strides, requires_grad, getattr(storage, "dtype", None), flags)


def _tensor_of_dtype(storage: Any, offset: Any, shape: Any, strides: Any, requires_grad: Any, hooks: Any, dtype: Any,
                     flags: Any = None) -> View:
    if not isinstance(dtype, Dtype) or dtype.removeprefix("torch.") not in NAMES:
        raise WeightsError(f"a tensor is of {str(dtype)[:50]}, which cannot be read: {ANEW} in another dtype")
    return _view(storage, offset, shape, strides, requires_grad, NAMES[dtype.removeprefix("torch.")], flags)


def _meta(dtype: Any, shape: Any, strides: Any, requires_grad: Any = False) -> Meta:
    if not isinstance(dtype, Dtype):
        raise WeightsError("a tensor's description makes no sense")
    return Meta(dtype, checked_size(shape), checked_size(strides), requires_grad is True)


def _parameter(data: Any, requires_grad: Any = True, hooks: Any = None, state: Any = None) -> Any:
    if isinstance(data, Unknown):  # Of a class of tensors that is not known, as a DTensor may be.
        return data
    if not isinstance(data, View):
        raise WeightsError("a parameter is none of a tensor")
    return replace(data, requires_grad=requires_grad is True, is_parameter=True, attributes=_attributes(state))


def _wrapper(kind: Any, *description: Any) -> Unknown:
    """A tensor of a class of its own, whose bytes are in others that it has as attributes."""
    if not isinstance(kind, Unknown):
        raise WeightsError("a tensor's class makes no sense")
    return kind.made_of(description)


def _with_attributes(function: Any, kind: Any, arguments: Any, state: Any) -> Any:
    if isinstance(function, Unknown):
        made = function.made_of(arguments)
        made.build(state)
        return made
    if not isinstance(function, Stand) or function.function not in (_tensor, _tensor_of_dtype, _parameter, _wrapper):
        raise WeightsError("a tensor is made by what makes none")
    made = function.function(*arguments)
    if isinstance(made, View):
        return replace(made, attributes=_attributes(state))
    made.build(state)
    return _distributed(made, arguments) if made.name == DTENSOR else made


def _distributed(wrapped: Unknown, arguments: Any) -> Any:
    """A DTensor: the tensor itself, where this rank had all of it; else an object that has a piece of it."""
    parts = dict(wrapped.parts())
    local = parts.get("_local_tensor")
    if (isinstance(local, View) and len(arguments) > 2 and local.shape == arguments[2]
            and not _is_partial(parts.get("_spec"))):
        return local
    made = Unknown(wrapped.name)
    made.build({"_local_tensor": local})
    return made


def _is_partial(spec: Any) -> bool:
    """Whether each rank has a part of a sum, which has the shape of the whole."""
    placements = dict(spec.parts()).get("placements", ()) if isinstance(spec, Unknown) else ()
    return any(isinstance(each, Unknown) and each.name.endswith("Partial") for each in placements)


def _attributes(state: Any) -> dict[str, Any] | None:
    if type(state) is tuple and len(state) == 2 and not state[1]:
        state = state[0]
    if not state:
        return None
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        raise WeightsError("a tensor's attributes make no sense")
    return dict(state)


def _device(kind: Any, index: Any = None) -> Device:
    if not isinstance(kind, str) or not (index is None or is_count(index)):
        raise WeightsError("a device's description makes no sense")
    return Device(kind if index is None else f"{kind}:{index}")


def _layout(name: Any) -> TorchName:
    if not isinstance(name, str) or name.removeprefix("torch.") not in LAYOUTS:
        raise WeightsError("a layout's description makes no sense")
    return TorchName(f"torch.{name.removeprefix('torch.')}")


def unknown(name: str) -> Unknown:
    """What stands in place of a name that is not in the table. What makes tensors must be there: none is left out."""
    if name.startswith("torch._utils."):
        raise UnknownGlobal(name)
    return Unknown(name)


TABLE: dict[str, Any] = {
    **PLAIN,
    "torch._utils._rebuild_tensor": Stand(_tensor),
    "torch._utils._rebuild_tensor_v2": Stand(_tensor),
    "torch._utils._rebuild_tensor_v3": Stand(_tensor_of_dtype),
    "torch._utils._rebuild_parameter": Stand(_parameter),
    "torch._utils._rebuild_parameter_with_state": Stand(_parameter),
    "torch._utils._rebuild_meta_tensor_no_storage": Stand(_meta),
    "torch._utils._rebuild_wrapper_subclass": Stand(_wrapper),
    "torch._tensor._rebuild_from_type_v2": Stand(_with_attributes),
    "torch.serialization._get_layout": Stand(_layout),
    "torch.Tensor": TorchName("torch.Tensor"),
    "torch.nn.parameter.Parameter": TorchName("torch.nn.parameter.Parameter"),
    "torch.Size": Stand(checked_size),
    "torch.device": Stand(_device),
    "torch.storage.UntypedStorage": StorageKind(None),
    **{f"torch.{name}Storage": StorageKind(dtype) for name, dtype in STORAGES.items()},
    **{f"torch.{name}": TorchName(f"torch.{name}") for name in SCHEMES},
    **{f"torch.{name}": Dtype(f"torch.{name}") for name in (*NAMES, *OTHER_DTYPES)},
}
