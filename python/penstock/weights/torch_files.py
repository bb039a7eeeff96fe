# SPDX-License-Identifier: Apache-2.0

"""Files of torch.save: where each tensor's bytes are, without torch and without running anything.

Such a file is a zip archive. `data.pkl` describes the objects, `data/KEY` is the memory of one storage, and tensors are
views of storages. The description is read here into records; what reads the bytes is the plan, as for any other file.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.weights.arrays import NAMES, SIZES, row_major, span
from penstock.weights.headers import Tensor, WeightsError
from penstock.weights.pickles import PICKLE_BYTES_MAX, PLAIN, Made, Stand, UnknownGlobal, read_pickle
from penstock.weights.zips import Window, Zip

DEPTH_MAX = 100
DIMENSIONS_MAX = 64
ELEMENTS_MAX = 1 << 62
NAMES_MAX = 50_000_000  # Characters, in all: dicts that share their parts can have many more names than bytes.

STORAGES = {"Double": "F64", "Float": "F32", "Half": "F16", "Long": "I64", "Int": "I32", "Short": "I16", "Char": "I8",
            "Byte": "U8", "Bool": "BOOL", "BFloat16": "BF16", "ComplexDouble": "C128", "ComplexFloat": "C64"}

ANEW = "load it with torch.load and save its state_dict with torch.save"


class TorchName(str):
    """What torch has an object for: "torch.float32", "cpu"."""


class Dtype(TorchName):
    pass


class Device(TorchName):
    pass


class Size(tuple[int, ...]):
    """In place of torch.Size."""


@dataclass(frozen=True, eq=False)
class StorageKind:
    """A class of storages: the dtype that it has, None for bytes."""

    dtype: str | None


@dataclass(frozen=True, eq=False)
class Storage:
    """Memory that was saved: `nbytes` at `offset` of the file."""

    key: str
    dtype: str | None
    offset: int
    nbytes: int


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


def _is_count(value: Any, most: int = ELEMENTS_MAX) -> bool:
    return type(value) is int and 0 <= value <= most


def checked_size(values: Any = ()) -> Size:
    if not isinstance(values, (tuple, list)) or len(values) > DIMENSIONS_MAX or not all(map(_is_count, values)):
        raise WeightsError("a tensor has a shape or strides that make no sense")
    return Size(values)


def _view(storage: Any, offset: Any, shape: Any, strides: Any, requires_grad: Any, dtype: str | None,
          flags: Any) -> View:
    shape, strides = checked_size(shape), checked_size(strides)
    if not isinstance(storage, Storage) or dtype is None or not _is_count(offset) or len(shape) != len(strides):
        raise WeightsError("a tensor's description makes no sense")
    elements = 1
    for size in shape:
        elements *= max(size, 1)
    if elements > ELEMENTS_MAX or (offset + span(shape, strides)) * SIZES[dtype] > storage.nbytes:
        raise WeightsError(f"a tensor of shape {list(shape)} and strides {list(strides)} at {offset} reaches beyond "
                           f"its storage {storage.key!r} of {storage.nbytes} bytes")
    told = flags if isinstance(flags, dict) else {}
    return View(storage, dtype, offset, shape, strides, requires_grad is True, told.get("conj") is True,
                told.get("neg") is True)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, requires_grad: Any = False, hooks: Any = None,
            flags: Any = None) -> View:
    return _view(storage, offset, shape, strides, requires_grad, getattr(storage, "dtype", None), flags)


def _tensor_of_dtype(storage: Any, offset: Any, shape: Any, strides: Any, requires_grad: Any, hooks: Any, dtype: Any,
                     flags: Any = None) -> View:
    if not isinstance(dtype, Dtype) or dtype.removeprefix("torch.") not in NAMES:
        raise WeightsError(f"a tensor is of {str(dtype)[:50]}, which cannot be read: {ANEW} in another dtype")
    return _view(storage, offset, shape, strides, requires_grad, NAMES[dtype.removeprefix("torch.")], flags)


def _parameter(data: Any, requires_grad: Any = True, hooks: Any = None, state: Any = None) -> View:
    if not isinstance(data, View):
        raise WeightsError("a parameter is none of a tensor")
    return replace(data, requires_grad=requires_grad is True, is_parameter=True, attributes=_attributes(state))


def _with_attributes(function: Any, kind: Any, arguments: Any, state: Any) -> View:
    if not isinstance(function, Stand) or function.function not in (_tensor, _tensor_of_dtype, _parameter):
        raise WeightsError("a tensor is made by what makes none")
    made: View = function.function(*arguments)
    return replace(made, attributes=_attributes(state))


def _attributes(state: Any) -> dict[str, Any] | None:
    if type(state) is tuple and len(state) == 2 and not state[1]:
        state = state[0]
    if not state:
        return None
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        raise WeightsError("a tensor's attributes make no sense")
    return dict(state)


def _device(kind: Any, index: Any = None) -> Device:
    if not isinstance(kind, str) or not (index is None or _is_count(index)):
        raise WeightsError("a device's description makes no sense")
    return Device(kind if index is None else f"{kind}:{index}")


TABLE: dict[str, Any] = {
    **PLAIN,
    "torch._utils._rebuild_tensor": Stand(_tensor),
    "torch._utils._rebuild_tensor_v2": Stand(_tensor),
    "torch._utils._rebuild_tensor_v3": Stand(_tensor_of_dtype),
    "torch._utils._rebuild_parameter": Stand(_parameter),
    "torch._utils._rebuild_parameter_with_state": Stand(_parameter),
    "torch._tensor._rebuild_from_type_v2": Stand(_with_attributes),
    "torch.Tensor": TorchName("torch.Tensor"),
    "torch.nn.parameter.Parameter": TorchName("torch.nn.parameter.Parameter"),
    "torch.Size": Stand(checked_size),
    "torch.device": Stand(_device),
    "torch.storage.UntypedStorage": StorageKind(None),
    **{f"torch.{name}Storage": StorageKind(dtype) for name, dtype in STORAGES.items()},
    **{f"torch.{name}": Dtype(f"torch.{name}") for name in NAMES},
}


class TorchFile:
    """What torch.save wrote to bytes `begin` to `begin + length` of a file: `tree` has a View for each tensor."""

    def __init__(self, file: Path, fd: int, begin: int = 0, length: int | None = None) -> None:
        self.file, self._begin = file, begin
        window = Window(file, fd, begin, length)
        self._where = window.where()
        self._zip = Zip(window)
        self._folder = self._archive_name()
        self.storages: dict[tuple[str, str | None, int], Storage] = {}
        try:
            self.tree = read_pickle(self._zip.read(f"{self._folder}data.pkl", PICKLE_BYTES_MAX), TABLE, self._storage)
        except UnknownGlobal as error:
            raise WeightsError(f"{self._where}: it needs {error.name}, and only tensors and plain data are read: "
                               f"where its origin is trusted, {ANEW}") from None
        except WeightsError as error:
            raise WeightsError(f"{self._where}: {error}") from None

    def _archive_name(self) -> str:
        entries = self._zip.entries
        folders = [name.removesuffix("data.pkl") for name in entries if name.endswith("/data.pkl")]
        folders = [folder for folder in folders if folder.count("/") == 1]
        if len(folders) != 1:
            raise WeightsError(f"{self._where}: a zip archive without data.pkl is no file of torch.save")
        folder = folders[0]
        if f"{folder}constants.pkl" in entries or any(name.startswith(f"{folder}code/") for name in entries):
            raise WeightsError(f"{self._where}: this is a program of TorchScript: load it with torch.jit.load and save "
                               "its state_dict with torch.save")
        if f"{folder}byteorder" in entries and self._zip.read(f"{folder}byteorder", 16) != b"little":
            raise WeightsError(f"{self._where}: its numbers are not little-endian: {ANEW} on a little-endian machine")
        return folder

    def _storage(self, said: Any) -> Storage:
        if type(said) is not tuple or len(said) != 5:
            raise WeightsError("a storage's description makes no sense")
        what, kind, key, _, count = said
        if what != "storage" or not isinstance(kind, StorageKind) or not isinstance(key, str) or not _is_count(count):
            raise WeightsError("a storage's description makes no sense")
        known = self.storages.get((key, kind.dtype, count))
        if known is not None:
            return known
        name = f"{self._folder}data/{key}"
        if name not in self._zip.entries:
            raise WeightsError(f"storage {key[:50]!r} is not in the archive")
        offset, size = self._zip.place(name)
        nbytes = count * SIZES[kind.dtype or "U8"]
        if nbytes > size:
            raise WeightsError(f"storage {key[:50]!r} is said to have {nbytes} bytes, and has {size}")
        self.storages[key, kind.dtype, count] = Storage(key, kind.dtype, self._begin + offset, nbytes)
        return self.storages[key, kind.dtype, count]

    def tensor(self, name: str, view: View) -> Tensor:
        """How a plan is told of a view."""
        if view.is_conjugate or view.is_negative:
            raise WeightsError(f"{self._where}: tensor {name[:200]!r} is conjugated or negated on access: save it "
                               "after resolve_conj() and resolve_neg(), or read the file with load_torch")
        in_rows, shape = is_row_major(view.shape, view.strides), tuple(view.shape)
        if view.dtype == "F4":
            if not in_rows or not shape:
                raise WeightsError(f"{self._where}: tensor {name[:200]!r} of two elements a byte does not lie row by "
                                   "row: save it after contiguous()")
            shape = (*shape[:-1], shape[-1] * 2)
        return Tensor(name, self.file, view.dtype, shape, view.storage.offset + view.offset * SIZES[view.dtype],
                      view.nbytes, None if in_rows else tuple(view.strides))

    def named(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and other values by their names: keys and indices, joined by dots.

        What holds no tensor is one value, however deep it is.
        """
        tensors: dict[str, Tensor] = {}
        objects: dict[str, Any] = {}
        for name, value in _Walk(self._where).leaves(self.tree):
            if name in tensors or name in objects:
                raise WeightsError(f"{self._where}: two values are called {name[:200]!r}")
            if isinstance(value, View):
                tensors[name] = self.tensor(name, value)
            else:
                objects[name] = value
        return tensors, objects


class _Walk:
    """Through a tree, of which parts may be shared, and which may contain itself."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._has_tensors: dict[int, bool] = {}
        self._names_left = NAMES_MAX

    def leaves(self, tree: Any) -> Iterator[tuple[str, Any]]:
        has_tensors = self._look(tree, 0)
        if isinstance(tree, View):
            yield "tensor", tree
        elif has_tensors or (isinstance(tree, dict) and all(isinstance(key, str) for key in tree)):
            yield from self._leaves("", tree, 0)
        else:
            yield "object", tree

    def _leaves(self, before: str, tree: Any, depth: int) -> Iterator[tuple[str, Any]]:
        if depth > DEPTH_MAX:
            raise self._too_deep()
        for key, value in _children(tree):
            if not isinstance(key, (str, int)):
                raise WeightsError(f"{self._where}: tensors are kept by a key of type {type(key).__name__}: text or an "
                                   "integer is expected")
            name = f"{before}{key}"
            self._names_left -= len(name) + 1
            if self._names_left < 0:
                raise WeightsError(f"{self._where}: names of over {NAMES_MAX} characters in all are not believed")
            if isinstance(value, View) or not self._has_tensors.get(id(value), False):
                yield name, value
            else:
                yield from self._leaves(f"{name}.", value, depth + 1)

    def _too_deep(self) -> WeightsError:
        return WeightsError(f"{self._where}: its objects are nested over {DEPTH_MAX} deep, or contain themselves")

    def _look(self, tree: Any, depth: int) -> bool:
        """Whether there is a tensor in it."""
        if isinstance(tree, (Storage, StorageKind, Stand, Made)):
            raise WeightsError(f"{self._where}: it has a storage or a class by itself: save tensors")
        if not isinstance(tree, (dict, list, tuple)) or isinstance(tree, Size):
            return isinstance(tree, View)
        if depth > DEPTH_MAX:
            raise self._too_deep()
        known = self._has_tensors.get(id(tree))
        if known is None:
            found = [self._look(value, depth + 1) for _, value in _children(tree)]
            known = self._has_tensors[id(tree)] = any(found)
        return known


def _children(tree: Any) -> Iterator[tuple[Any, Any]]:
    return iter(tree.items() if isinstance(tree, (dict, OrderedDict)) else enumerate(tree))


def read_torch_file(file: Path, fd: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the other values of a whole file."""
    return TorchFile(file, fd).named()


LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19"


def is_torch_file(file: Path, fd: int) -> bool:
    """Whether a file begins as torch.save's do. Raises WeightsError for those of its forms that are not read."""
    head = os.pread(fd, 512, 0)
    if head.startswith(LEGACY):
        raise WeightsError(f"{file}: torch.save wrote this in the form that it had before 1.6: {ANEW}")
    if head[:1] == b"\x80" and head[8:9] != b"{" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        raise WeightsError(f"{file}: this is a pickle, no file of torch.save: where its origin is trusted, load it "
                           "with pickle.load and save its tensors with torch.save")
    if head[257:262] == b"ustar":
        raise WeightsError(f"{file}: this is a tar archive, perhaps of a torch before 0.4 or a NeMo model: unpack it")
    return head.startswith(b"PK\x03\x04")
