# SPDX-License-Identifier: Apache-2.0

"""In place of torch.load: the objects of a file, with tensors that share memory where they shared it."""

from __future__ import annotations

import os
from collections import Counter, OrderedDict
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from penstock.sessions import Session
from penstock.weights.files import copied, identity_of, opened_file
from penstock.weights.kinds import is_torch_file
from penstock.weights.plan import Plan
from penstock.weights.tensors import DTYPES, OTHERS, SIZES, Tensor, WeightsError, collecting_paused, named
from penstock.weights.torch_files import DEPTH_MAX, TorchFile
from penstock.weights.torch_views import Device, Meta, Size, Storage, TorchName, View

if TYPE_CHECKING:
    import torch


def load_torch(path: str | os.PathLike[str] | BinaryIO, device: Any = "cpu", *, map_location: Any = None,
               weights_only: bool = True, session: Session | None = None) -> Any:
    """In place of `torch.load(path, map_location=device, weights_only=True)`: nothing is executed.

    Gives dicts, lists, tuples, sets, text, bytes, numbers, dtypes, devices, sizes, tensors and parameters as they were.
    map_location: as torch has it, another word for device, or a dict of devices, by which tensors of {"cuda:1":
    "cuda:0"} go to others than those that they were saved from; None: to `device`. Functions are refused, since tensors
    are read straight to where they go. A file object, as io.BytesIO, is copied first.

    Tensors that shared a storage share memory again. Neighbours in the file share a piece of memory besides, of
    256 MiB at most: clone a tensor that is to outlive the others. Raises WeightsError for what is no plain data, and
    MemoryError before the first byte where it will not fit.
    """
    if not weights_only:
        raise WeightsError("weights_only is False: nothing that a file names is executed here. Where its origin is "
                           "trusted, use torch.load")
    place = device if map_location is None else map_location
    if callable(place):
        raise WeightsError("map_location is a function, which would get tensors before they are read: expected a "
                           "device, as 'cpu' or 'cuda:1', or a dict, as {'cuda:1': 'cuda:0'}")
    if isinstance(path, (str, os.PathLike)):
        return _load(Path(path), place, session)
    with copied(path) as file:
        try:
            return _load(file, place, session)
        except WeightsError as error:
            raise WeightsError(str(error).replace(str(file), f"the {type(path).__name__}")) from None


def _load(file: Path, device: Any, session: Session | None) -> Any:
    import torch

    with opened_file(file) as fd, collecting_paused():
        identity = identity_of(fd)
        if not is_torch_file(file, fd):
            raise WeightsError(f"{file}: this is no file of torch.save")
        found = TorchFile(file, fd)
    if found.unknown is not None:
        raise found.needs(found.unknown)
    memory: dict[int, torch.Tensor] = {}
    for place, wanted in _by_place(found.storages.values(), device).items():
        tensors = [Tensor(str(offset), file, "U8", (nbytes,), offset, nbytes) for offset, nbytes in wanted.items()]
        with named(f"{file}: tensors for {place}"):
            plan = Plan([(tensor, None) for tensor in tensors], place, None, session, {file: identity})
            memory |= {int(name): each for name, each in plan.load().items()}
    rebuilding = _Rebuilding(file, memory)
    with torch.no_grad(), collecting_paused(), named(f"{file}"):
        return rebuilding.rebuilt(found.tree, 0)


def _by_place(storages: Iterable[Storage], device: Any) -> dict[Any, dict[int, int]]:
    """The sizes of storages by their offsets, and these by the device that they go to. device: one, or a dict of them
    by where the storages were."""
    places: dict[Any, dict[int, int]] = {}
    for storage in storages:
        place = device.get(storage.location, storage.location) if isinstance(device, dict) else device
        wanted = places.setdefault(place, {})
        # One storage may be told of several times, with different sizes.
        wanted[storage.offset] = max(wanted.get(storage.offset, 0), storage.nbytes)
    return places


class _Rebuilding:
    """Of the objects, from their descriptions."""

    def __init__(self, file: Path, memory: dict[int, torch.Tensor]) -> None:
        self._file, self._memory = file, memory
        self._made: dict[int, Any] = {}  # What is in the tree twice is one object.

    def rebuilt(self, said: Any, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise WeightsError(f"{self._file}: its objects are nested over {DEPTH_MAX} deep")
        if isinstance(said, (View, Meta, dict, list, tuple)) and id(said) in self._made:
            return self._made[id(said)]
        if isinstance(said, View):
            return self._tensor(said, depth)
        if isinstance(said, Meta):
            return self._meta(said)
        if isinstance(said, dict):
            return self._dict(said, depth)
        if isinstance(said, list):
            values = self._made[id(said)] = []
            values.extend(self.rebuilt(value, depth + 1) for value in said)
            return values
        if type(said) is tuple:
            made = self._made[id(said)] = tuple(self.rebuilt(value, depth + 1) for value in said)
            return made
        if isinstance(said, (set, frozenset)):
            return type(said)(self.rebuilt(value, depth + 1) for value in said)
        return self._plain(said)

    def _plain(self, said: Any) -> Any:
        import torch

        if isinstance(said, Size):
            return torch.Size(said)
        if isinstance(said, Device):
            return torch.device(said)
        if isinstance(said, TorchName):
            return attrgetter(said.removeprefix("torch."))(torch)
        if not isinstance(said, (str, bytes, bytearray, int, float, complex, slice, type(None))):
            raise WeightsError(f"{self._file}: it has a storage or a class by itself: save tensors")
        return said

    def _dict(self, said: dict[Any, Any], depth: int) -> Any:
        made: Any = next((kind() for kind in (OrderedDict, Counter) if isinstance(said, kind)), {})
        self._made[id(said)] = made
        for key, value in said.items():
            made[self.rebuilt(key, depth + 1)] = self.rebuilt(value, depth + 1)
        for name, value in getattr(said, "__dict__", {}).items():
            setattr(made, name, self.rebuilt(value, depth + 1))
        return made

    def _meta(self, said: Meta) -> torch.Tensor:
        import torch

        dtype = self._plain(said.dtype)
        made = torch.empty_strided(said.shape, said.strides, dtype=dtype, device="meta")
        self._made[id(said)] = made.requires_grad_(said.requires_grad)
        return made

    def _tensor(self, view: View, depth: int) -> torch.Tensor:
        import torch

        size, shape = SIZES[view.dtype], tuple(view.shape)
        memory = self._aligned(view.storage, size)
        typed = memory[:memory.numel() // size * size].view(_torch_dtype(self._file, view.dtype))
        tensor = typed.as_strided(shape, tuple(view.strides), typed.storage_offset() + view.offset)
        if view.is_conjugate:
            tensor = tensor.conj()
        if view.is_negative:
            tensor = torch._neg_view(tensor)
        if view.is_parameter:
            tensor = torch.nn.Parameter(tensor, requires_grad=view.requires_grad)
        elif view.requires_grad:
            tensor.requires_grad_(True)
        self._made[id(view)] = tensor
        for name, value in (view.attributes or {}).items():
            tensor.__dict__[name] = self.rebuilt(value, depth + 1)
        return tensor

    def _aligned(self, storage: Storage, size: int) -> torch.Tensor:
        """A storage's memory; a copy, once for all of its tensors, where torch could not look at it in place."""
        memory = self._memory[storage.offset]
        if memory.storage_offset() % size != 0:
            memory = self._memory[storage.offset] = memory.clone()
        return memory


def _torch_dtype(file: Path, name: str) -> torch.dtype:
    import torch

    dtype = getattr(torch, DTYPES.get(name) or OTHERS[name], None)
    if dtype is None:
        raise WeightsError(f"{file}: a tensor is {name}, which this torch cannot hold")
    return dtype  # type: ignore[no-any-return]
