# SPDX-License-Identifier: Apache-2.0

"""Files of torch.save: where each tensor's bytes are, without torch and without running anything.

Such a file is a zip archive. `data.pkl` describes the objects, `data/KEY` is the memory of one storage, and tensors are
views of storages. The description is read here into records; what reads the bytes is the plan, as for any other file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from penstock.weights.pickles import PICKLE_BYTES_MAX, read_pickle
from penstock.weights.stands import Made, Stand, Unknown, UnknownGlobal
from penstock.weights.tensors import SIZES, Tensor, WeightsError
from penstock.weights.torch_views import (
    ANEW, TABLE, Size, Storage, StorageKind, View, is_count, is_row_major, unknown,
)
from penstock.weights.zips import Window, Zip

DEPTH_MAX = 100
NAMES_MAX = 50_000_000  # Characters, in all: dicts that share their parts can have many more names than bytes.


class TorchFile:
    """What torch.save wrote to bytes `begin` to `begin + length` of a file: `tree` has a View for each tensor.

    `unknown` names the first class or function that is not known. Objects of such stand in the tree as Unknown.
    """

    def __init__(self, file: Path, fd: int, begin: int = 0, length: int | None = None) -> None:
        self.file, self._begin = file, begin
        window = Window(file, fd, begin, length)
        self._where = window.where()
        self._zip = Zip(window)
        self._folder = self._archive_name()
        self.storages: dict[tuple[str, str | None, int], Storage] = {}
        self.unknown: str | None = None
        try:
            content = self._zip.read(f"{self._folder}data.pkl", PICKLE_BYTES_MAX)
            self.tree = read_pickle(content, TABLE, self._storage, self._unknown)
        except UnknownGlobal as error:
            raise self.needs(error.name) from None
        except WeightsError as error:
            raise WeightsError(error if str(error).startswith(self._where) else f"{self._where}: {error}") from None

    def _unknown(self, name: str) -> Unknown:
        made = unknown(name)
        self.unknown = self.unknown or name
        return made

    def needs(self, name: str) -> WeightsError:
        return WeightsError(f"{self._where}: it needs {name}, and only tensors and plain data are read: where its "
                            f"origin is trusted, {ANEW}")

    def _archive_name(self) -> str:
        entries = self._zip.entries
        folders = [name.removesuffix("data.pkl") for name in entries if name.endswith("/data.pkl")]
        folders = [folder for folder in folders if folder.count("/") == 1]
        if len(folders) != 1:
            raise WeightsError(f"{self._where}: {_archive_of(entries)}")
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
        what, kind, key, location, count = said
        if isinstance(kind, Unknown):
            raise UnknownGlobal(kind.name)
        if what != "storage" or not isinstance(kind, StorageKind) or not is_count(count) or not (
                isinstance(key, str) and isinstance(location, str)):
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
        self.storages[key, kind.dtype, count] = Storage(key, kind.dtype, self._begin + offset, nbytes, location)
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
        """Tensors and other values by their names: keys, indices and attributes, joined by dots.

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
        if self.unknown is not None and not tensors:
            raise self.needs(self.unknown)
        return tensors, objects


def _archive_of(entries: Iterable[str]) -> str:
    """What another archive is, by the names in it."""
    names = set(entries)
    if any(name.endswith("/archive_format") for name in names):
        return "this is a program of torch.export: load it with torch.export.load and save its state_dict"
    if names and all(name.endswith(".npy") for name in names):
        return "these are arrays of numpy (.npz): load them with numpy.load and save them as safetensors"
    return "a zip archive without data.pkl is no file of torch.save"


class _Walk:
    """Through a tree, of which parts may be shared, and which may contain itself."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._has_tensors: dict[int, bool] = {}
        self._names_left = NAMES_MAX
        self._path: set[int] = set()

    def leaves(self, tree: Any) -> Iterator[tuple[str, Any]]:
        has_tensors = self._look(tree, 0, False)
        if isinstance(tree, View):
            yield "tensor", tree
        elif has_tensors or (isinstance(tree, dict) and all(isinstance(key, str) for key in tree)):
            yield from self._leaves("", tree, 0)
        else:
            yield "object", tree

    def _leaves(self, before: str, tree: Any, depth: int) -> Iterator[tuple[str, Any]]:
        if depth > DEPTH_MAX:
            raise self._too_deep()
        self._path.add(id(tree))
        for key, value in _children(tree):
            if not isinstance(key, (str, int)):
                raise WeightsError(f"{self._where}: tensors are kept by a key of type {type(key).__name__}: text or an "
                                   "integer is expected")
            name = f"{before}{key}"
            self._names_left -= len(name) + 1
            if self._names_left < 0:
                raise WeightsError(f"{self._where}: names of over {NAMES_MAX} characters in all are not accepted")
            # What an unknown object has may lead back to it.
            if isinstance(value, View) or not self._has_tensors.get(id(value), False) or id(value) in self._path:
                yield name, value
            else:
                yield from self._leaves(f"{name}.", value, depth + 1)
        self._path.remove(id(tree))

    def _too_deep(self) -> WeightsError:
        return WeightsError(f"{self._where}: its objects are nested over {DEPTH_MAX} deep, or contain themselves")

    def _look(self, tree: Any, depth: int, is_within: bool) -> bool:
        """Whether there is a tensor in it. is_within: in an unknown object, which may have whatever it likes."""
        if isinstance(tree, (Storage, StorageKind, Stand, Made)) and not is_within:
            raise WeightsError(f"{self._where}: it has a storage or a class by itself: save tensors")
        if not isinstance(tree, (dict, list, tuple, Unknown)) or isinstance(tree, Size):
            return isinstance(tree, View)
        known = self._has_tensors.get(id(tree))
        if known is None and depth > DEPTH_MAX and not is_within:
            raise self._too_deep()
        if known is not None or depth > DEPTH_MAX:
            return known or False
        is_unknown = isinstance(tree, Unknown)
        if is_unknown:
            self._has_tensors[id(tree)] = False  # Where it contains itself.
        found = [self._look(value, depth + 1, is_within or is_unknown) for _, value in _children(tree)]
        known = self._has_tensors[id(tree)] = any(found)
        return known


def _children(tree: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(tree, Unknown):
        return tree.parts()
    return iter(tree.items() if isinstance(tree, dict) else enumerate(tree))


def read_torch_file(file: Path, fd: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the other values of a whole file."""
    return TorchFile(file, fd).named()
