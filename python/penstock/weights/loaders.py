# SPDX-License-Identifier: Apache-2.0

"""The calls of other loaders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from penstock import _native
from penstock.sessions import Session, default_session
from penstock.weights import arrays
from penstock.weights.headers import Part, Tensor, Weights, WeightsError
from penstock.weights.plan import PAGE, Plan

if TYPE_CHECKING:
    import torch


def load_file(filename: str | os.PathLike[str], device: Any = "cpu", *,
              session: Session | None = None) -> dict[str, torch.Tensor]:
    """In place of `safetensors.torch.load_file`: all tensors of a file, by name."""
    loaded = Weights([filename]).plan(device=device, session=session).load()
    return dict(sorted(loaded.items()))


def load_model(module: torch.nn.Module, paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *,
               strict: bool = True, device: Any = None, session: Session | None = None) -> tuple[list[str], list[str]]:
    """Fills a module's parameters and buffers from its files, a few ranges at a time.

    The tensors come to `device` (that of the module's first parameter, if nothing is said), and are copied from there
    with the module's dtypes. Returns the names that the files lack, and those that the module lacks; with `strict`
    either is a WeightsError, before anything is read. So is a module whose hooks make its state_dict of other tensors
    than its own: `module.load_state_dict(load_file(...))` serves those.
    """
    import torch

    weights, state = Weights(paths), module.state_dict(keep_vars=True)
    targets = {name: target for name, target in state.items() if isinstance(target, torch.Tensor)}
    _check_own(module, targets)
    loaded = {_place_of(targets[name]) for name in weights.tensors if name in targets and targets[name].numel() > 0}
    # What is tied to another parameter is loaded with it.
    missing = sorted(name for name in state if name not in weights.tensors and (
        name not in targets or targets[name].is_meta or _place_of(targets[name]) not in loaded))
    unexpected = sorted(set(weights.tensors) - set(targets))
    if strict and (missing or unexpected):
        raise WeightsError(f"the files lack {missing}, and the module lacks {unexpected}")
    common = [name for name in weights.tensors if name in targets]
    for name in common:
        there, target = weights.tensors[name], targets[name]
        if arrays.format_shape(there.dtype, target.shape) != there.shape:
            raise WeightsError(f"tensor {name!r} is {list(there.shape)} in {there.file} and "
                               f"{list(target.shape)} in the module")
        if target.is_meta:
            raise WeightsError(f"parameter {name!r} has no memory yet: call module.to_empty(device=...) first")
    if not common:
        return missing, unexpected
    place = device if device is not None else targets[common[0]].device
    chosen = [(weights.tensors[name], None) for name in common]
    with torch.no_grad():
        for name, tensor in Plan(chosen, place, None, session, weights.identities, check=weights.check):
            targets[name].copy_(tensor)
    return missing, unexpected


def _check_own(module: torch.nn.Module, targets: Mapping[str, torch.Tensor]) -> None:
    """Filling copies would fill nothing."""
    own = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    for name, target in targets.items():
        if id(target) not in own:
            raise WeightsError(f"{name!r} of the module's state_dict() is no parameter or buffer of the module's, but "
                               "made by a hook: call module.load_state_dict(load_file(...))")


def _place_of(tensor: torch.Tensor) -> tuple[int, torch.Size, tuple[int, ...]]:
    return tensor.data_ptr(), tensor.shape, tensor.stride()


def save_file(tensors: Mapping[str, Any], filename: str | os.PathLike[str],
              metadata: Mapping[str, str] | None = None, *, session: Session | None = None) -> None:
    """In place of `safetensors.torch.save_file`, and that of numpy: the file appears when it is whole and on the disk.

    Tensors are contiguous, on any device. The data begins at a multiple of 4096 bytes, so that direct I/O serves it.
    """
    for text in (*tensors, *(metadata or {}), *(metadata or {}).values()):
        _check_text(text)
    described = [arrays.described(name, tensor) for name, tensor in tensors.items()]
    try:
        header, placed = _native.make_safetensors_header(described, dict(metadata or {}), PAGE)
    except ValueError as error:
        raise WeightsError(str(error)) from None
    with (session or default_session()).create(filename, replace=True) as file:
        file.write(header)
        for begin in range(0, len(placed), 512):
            pieces = placed[begin:begin + 512]
            file.writev([arrays.raw_bytes(tensors[name]) for name, _, _ in pieces], pieces[0][1])


def _check_text(text: Any) -> None:
    try:
        if isinstance(text, str):
            text.encode()
            return
    except UnicodeEncodeError:
        pass
    raise WeightsError(f"names of tensors and metadata are text that UTF-8 can write, and {text!r} is not")


class safe_open:  # noqa: N801, the name that it replaces.
    """In place of `safetensors.safe_open`: `with safe_open(file, framework="pt", device="cuda") as opened: ...`."""

    def __init__(self, filename: str | os.PathLike[str], framework: str = "pt", device: Any = "cpu", *,
                 session: Session | None = None) -> None:
        arrays.arrays_of(framework, device)  # Raises here, and not at the first tensor.
        self._weights = Weights([filename])
        self._framework, self._device, self._session = framework, device, session

    def keys(self) -> list[str]:
        return sorted(self._weights.tensors)

    def offset_keys(self) -> list[str]:
        """The names in the order of the file."""
        return list(self._weights.tensors)

    def metadata(self) -> dict[str, str] | None:
        return self._weights.metadata or None

    def get_tensor(self, name: str) -> Any:
        return self._get(name, None)

    def get_slice(self, name: str) -> Slice:
        """What can be indexed: `get_slice(name)[2:4, :, ::2]` reads no more rows than it needs."""
        if name not in self._weights.tensors:
            raise WeightsError(f"no tensor is called {name!r}")
        return Slice(self, self._weights.tensors[name])

    def _get(self, name: str, part: Part | None) -> Any:
        if name not in self._weights.tensors:
            raise WeightsError(f"no tensor is called {name!r}")
        plan = Plan([(self._weights.tensors[name], part)], self._device, None, self._session, self._weights.identities,
                    framework=self._framework)
        return next(iter(plan))[1]

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        return None


class Slice:
    """A tensor of which parts are read when it is indexed."""

    def __init__(self, opened: safe_open, tensor: Tensor) -> None:
        self._opened, self._tensor = opened, tensor

    def get_shape(self) -> list[int]:
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        return self._tensor.dtype

    def __getitem__(self, index: Any) -> Any:
        indices = index if isinstance(index, tuple) else (index,)
        rows = self._rows_of(indices[0]) if indices and self._tensor.shape and self._tensor.dtype != "F4" else None
        if rows is None:
            return self._alone(self._opened.get_tensor(self._tensor.name), index)
        start, stop, rest = rows
        return self._alone(self._opened._get(self._tensor.name, Part(0, start, stop)), (rest, *indices[1:]))

    def _rows_of(self, first: Any) -> tuple[int, int, Any] | None:
        """The range of rows that an index means, and the index into that; None where all are read."""
        count = self._tensor.shape[0]
        if isinstance(first, int) and not isinstance(first, bool) and -count <= first < count:
            return first % count, first % count + 1, 0
        if not isinstance(first, slice) or (first.step or 1) < 1:
            return None
        start, stop, step = first.indices(count)
        return start, max(start, stop), slice(None, None, step)

    @staticmethod
    def _alone(read: Any, index: Any) -> Any:
        """A small part does not keep the memory of all that was read."""
        part = read[index]
        return part if 2 * part.nbytes > read.nbytes or not hasattr(part, "clone") else part.clone()
