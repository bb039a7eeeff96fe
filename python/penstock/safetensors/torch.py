# SPDX-License-Identifier: Apache-2.0

"""In place of `safetensors.torch`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from penstock.weights import loaders
from penstock.weights.loaders import load
from penstock.weights.opened import safe_open
from penstock.weights.tensors import DTYPES, StateError

__all__ = ["load", "load_file", "load_model", "save", "save_file", "save_model", "storage_ptr", "storage_size"]

_TYPES = {name: dtype for name, ours in DTYPES.items() if (dtype := getattr(torch, ours, None)) is not None}
_SIZE = {dtype: dtype.itemsize for dtype in _TYPES.values()}


def load_file(filename: str | os.PathLike[str], device: Any = "cpu", *,
              backend: str = "mmap") -> dict[str, torch.Tensor]:
    with safe_open(filename, "pt", device, backend=backend) as opened:
        return opened.get_tensors()


def save(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    return loaders.save(tensors, metadata, alignment=loaders.STOCK_ALIGNMENT)


def save_file(tensors: Mapping[str, torch.Tensor], filename: str | os.PathLike[str],
              metadata: Mapping[str, str] | None = None) -> None:
    loaders.write_file(tensors, filename, metadata, None, may_share=False, alignment=loaders.STOCK_ALIGNMENT)


def save_model(model: torch.nn.Module, filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None,
               force_contiguous: bool = True) -> None:
    """Saves one of the tensors that share memory; the metadata name the others."""
    state, aliases = model.state_dict(), dict(metadata or {})
    for kept, others in _remove_duplicate_names(state).items():
        for name in others:
            aliases.setdefault(name, kept)
            del state[name]
    loaders.save_state(state, filename, aliases, force_contiguous, alignment=loaders.STOCK_ALIGNMENT)


def load_model(model: torch.nn.Module, filename: str | os.PathLike[str], strict: bool = True, device: Any = "cpu", *,
               backend: str = "mmap") -> tuple[Any, list[str]]:
    """Loads into the module's own tensors; returns the names that the file lacks, and those that the module lacks."""
    state = load_file(filename, device, backend=backend)
    doubles = _remove_duplicate_names(model.state_dict(), preferred_names=state)
    missing, unexpected = model.load_state_dict(state, strict=False)
    left = set(missing)
    for name in (name for names in doubles.values() for name in names):
        if name in left:
            left.remove(name)  # It is loaded with the tensor that it is tied to.
        else:
            unexpected.append(name)
    if strict and (left or unexpected):
        raise loaders.disagreement(f"{filename}", sorted(left), sorted(unexpected))
    return left, unexpected


def storage_ptr(tensor: torch.Tensor) -> int:
    """0 for a tensor without memory."""
    return tensor.untyped_storage().data_ptr()


def storage_size(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes()


def _end_ptr(tensor: torch.Tensor) -> int:
    """Behind the last element of a tensor."""
    if tensor.nelement() == 0:
        return tensor.data_ptr()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr() + (last + 1) * tensor.element_size()


def _find_shared_tensors(state_dict: Mapping[str, torch.Tensor]) -> list[set[str]]:
    """The names by the memory that they share, in the order of the first of each."""
    places = sorted((str(tensor.device), storage_ptr(tensor), storage_size(tensor), tensor.data_ptr(), _end_ptr(tensor),
                     name) for name, tensor in state_dict.items()
                    if not tensor.is_meta and storage_ptr(tensor) != 0 and storage_size(tensor) != 0)
    groups: list[set[str]] = []
    where, end = None, 0
    for *storage, begin, stop, name in places:
        if storage == where and begin < end:
            groups[-1].add(name)
            end = max(end, stop)
        else:
            groups.append({name})
            where, end = storage, stop
    order = {name: i for i, name in enumerate(state_dict)}
    return sorted(groups, key=lambda group: min(order[name] for name in group))


def _is_complete(tensor: torch.Tensor) -> bool:
    """Whether it has all of its storage."""
    return tensor.data_ptr() == storage_ptr(tensor) and tensor.nbytes == storage_size(tensor)


def _remove_duplicate_names(state_dict: Mapping[str, torch.Tensor], *, preferred_names: Iterable[str] | None = None,
                            discard_names: Iterable[str] | None = None) -> dict[str, list[str]]:
    """By the name that is kept the names of the tensors that it shares its memory with."""
    preferred, discarded = set(preferred_names or ()), set(discard_names or ())
    removed: dict[str, list[str]] = {}
    for group in _find_shared_tensors(state_dict):
        complete = {name for name in group if _is_complete(state_dict[name])}
        if len(group) < 2 and complete:
            continue
        if not complete:
            raise StateError(f"tensors {', '.join(map(repr, sorted(group)))} do not have all of the memory that they "
                             "are parts of, so that none can be saved in place of it: save a clone() of each")
        kept = min(preferred & complete or complete - discarded or complete)
        if len(group) > 1:
            removed[kept] = sorted(group - {kept})
    return removed
