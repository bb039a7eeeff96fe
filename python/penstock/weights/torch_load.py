# SPDX-License-Identifier: Apache-2.0

"""In place of torch.load: the objects of a file, with tensors that share memory where they shared it."""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.sessions import Session
from penstock.weights.arrays import SIZES
from penstock.weights.headers import Tensor, WeightsError, identity_of
from penstock.weights.plan import Plan
from penstock.weights.torch_files import DEPTH_MAX, Device, Dtype, Size, Storage, TorchFile, View, is_torch_file

if TYPE_CHECKING:
    import torch


def load_torch(path: str | os.PathLike[str], device: Any = "cpu", *, session: Session | None = None) -> Any:
    """In place of `torch.load(path, map_location=device, weights_only=True)`: nothing is executed.

    Gives dicts, lists, tuples, sets, text, bytes, numbers, dtypes, devices, sizes, tensors and parameters as they were.

    Tensors that shared a storage share memory again. Neighbours in the file share a piece of memory besides, of
    256 MiB at most: clone a tensor that is to outlive the others. Raises WeightsError for what is no plain data, and
    MemoryError before the first byte where it will not fit.
    """
    import torch

    file = Path(path)
    with open(file, "rb") as opened:
        identity = identity_of(opened.fileno())
        if not is_torch_file(file, opened.fileno()):
            raise WeightsError(f"{file}: this is no file of torch.save")
        found = TorchFile(file, opened.fileno())
    wanted: dict[int, int] = {}  # One storage may be told of several times, with different sizes.
    for storage in found.storages.values():
        wanted[storage.offset] = max(wanted.get(storage.offset, 0), storage.nbytes)
    tensors = [Tensor(str(offset), file, "U8", (nbytes,), offset, nbytes) for offset, nbytes in wanted.items()]
    plan = Plan([(tensor, None) for tensor in tensors], device, None, session, {file: identity})
    rebuilding = _Rebuilding(file, {int(name): memory for name, memory in plan.load().items()})
    with torch.no_grad():
        return rebuilding.rebuilt(found.tree, 0)


class _Rebuilding:
    """Of the objects, from their descriptions."""

    def __init__(self, file: Path, memory: dict[int, torch.Tensor]) -> None:
        self._file, self._memory = file, memory
        self._made: dict[int, Any] = {}  # What is in the tree twice is one object.

    def rebuilt(self, said: Any, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise WeightsError(f"{self._file}: its objects are nested over {DEPTH_MAX} deep")
        if isinstance(said, (View, dict, list, tuple)) and id(said) in self._made:
            return self._made[id(said)]
        if isinstance(said, View):
            return self._tensor(said, depth)
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
        if isinstance(said, Dtype):
            return getattr(torch, said.removeprefix("torch."))
        if isinstance(said, Device):
            return torch.device(said)
        if not isinstance(said, (str, bytes, bytearray, int, float, complex, slice, type(None))):
            raise WeightsError(f"{self._file}: it has a storage or a class by itself: save tensors")
        return said

    def _dict(self, said: dict[Any, Any], depth: int) -> Any:
        made: Any = OrderedDict() if isinstance(said, OrderedDict) else {}
        self._made[id(said)] = made
        for key, value in said.items():
            made[self.rebuilt(key, depth + 1)] = self.rebuilt(value, depth + 1)
        for name, value in getattr(said, "__dict__", {}).items():
            setattr(made, name, self.rebuilt(value, depth + 1))
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

    from penstock.weights.arrays import DTYPES, OTHERS

    dtype = getattr(torch, DTYPES.get(name) or OTHERS[name], None)
    if dtype is None:
        raise WeightsError(f"{file}: a tensor is {name}, which this torch cannot hold")
    return dtype  # type: ignore[no-any-return]
