# SPDX-License-Identifier: Apache-2.0

"""A state as JSON with separate tensors: dicts, lists, tuples, text, numbers, bytes, None. Never a pickle."""

from __future__ import annotations

import base64
import dataclasses
import enum
import os
import sys
from collections.abc import Mapping
from typing import Any

from penstock.checkpoint.layout import CheckpointError
from penstock.weights.pickles import checked_key
from penstock.weights.tensors import WeightsError

DEPTH_MAX = 100
TENSOR, TUPLE, ITEMS, BYTES = "$tensor", "$tuple", "$items", "$bytes"


def taken_apart(state: Any) -> tuple[Any, dict[str, Any]]:
    """Splits a state into the tree and its tensors by name (keys joined by dots). A tensor that occurs twice is stored
    once."""
    tensors: dict[str, Any] = {}
    known: dict[tuple[Any, ...], str] = {}

    def name_of(path: tuple[str, ...], tensor: Any) -> str:
        _check_memory(".".join(path) or "the state", tensor)
        identity = _identity(tensor)
        if identity in known:
            return known[identity]
        wanted = name = ".".join(path) or "tensor"
        number = 2
        while name in tensors:
            name, number = f"{wanted}#{number}", number + 1
        tensors[name] = tensor
        known[identity] = name
        return name

    def walk(value: Any, path: tuple[str, ...]) -> Any:
        if len(path) > DEPTH_MAX:
            raise CheckpointError(f"the state is nested over {DEPTH_MAX} deep at {'.'.join(path)[:100]!r}, or contains "
                                  "itself")
        value = _plain_number(value)
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            return {TENSOR: name_of(path, value)}
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, (bytes, bytearray)):
            return {BYTES: base64.b64encode(value).decode()}
        if isinstance(value, Mapping):
            pairs = [(key, walk(each, (*path, str(key)))) for key, each in value.items()]
            if all(isinstance(key, str) and not key.startswith("$") for key, _ in pairs):
                return dict(pairs)
            return {ITEMS: [[walk(_checked_key(_plain_number(key)), path), each] for key, each in pairs]}
        if isinstance(value, (list, tuple)):
            items = [walk(each, (*path, str(i))) for i, each in enumerate(value)]
            return items if isinstance(value, list) else {TUPLE: items}
        name = ".".join(path)
        raise CheckpointError(f"{name or 'the state'} is of type {type(value).__name__}, which is not saved: pass "
                              f"{_plain_form(value).format(path[-1] if path else 'state')}")

    return walk(state, ()), tensors


def _plain_form(value: Any) -> str:
    """Suggests a replacement for the message, with a placeholder for its name."""
    if hasattr(value, "state_dict"):
        return "{}.state_dict()"
    if isinstance(value, (set, frozenset)):
        return "list({}), and make it a set again after load"
    if isinstance(value, enum.Enum):
        return "{}.value"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return "dataclasses.asdict({})"
    # For instance torch's dtypes, devices and layouts.
    if isinstance(value, os.PathLike) or type(value).__module__ == "torch":
        return "str({})"
    if isinstance(value, complex):
        return "[{0}.real, {0}.imag]"
    if hasattr(value, "isoformat"):
        return "{}.isoformat()"
    if hasattr(value, "__dict__") and not callable(value):
        return "vars({}), or what of it is plain data"
    return "plain data: dicts, lists, tuples, text, numbers, bytes, tensors"


def put_together(tree: Any, tensors: Mapping[str, Any], depth: int = 0) -> Any:
    """Rebuilds the state. Raises CheckpointError for an invalid tree."""
    if depth > 3 * DEPTH_MAX:
        raise CheckpointError("its state is nested too deep")
    if isinstance(tree, list):
        return [put_together(each, tensors, depth + 1) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if len(tree) == 1:
        kind, content = next(iter(tree.items()))
        if kind == TENSOR:
            if not isinstance(content, str) or content not in tensors:
                raise CheckpointError(f"its state names tensor {str(content)[:100]!r}, which it does not have")
            return tensors[content]
        if kind == TUPLE and isinstance(content, list):
            return tuple(put_together(each, tensors, depth + 1) for each in content)
        if kind == BYTES and isinstance(content, str):
            return base64.b64decode(content)
        if kind == ITEMS and isinstance(content, list):
            return {_checked_key(put_together(key, {}, depth + 1)): put_together(each, tensors, depth + 1)
                    for key, each in content}
    return {key: put_together(each, tensors, depth + 1) for key, each in tree.items()}


def _plain_number(value: Any) -> Any:
    """Converts numpy's numbers, but not its dates, which also look like numbers."""
    numpy = sys.modules.get("numpy")
    return value.item() if numpy is not None and isinstance(value, numpy.generic) and value.dtype.kind not in "mM" \
        else value


def _checked_key(key: Any) -> Any:
    """Returns a key that hashes well: a hostile file may have keys that collide."""
    try:
        return checked_key(key)
    except WeightsError as error:
        raise CheckpointError(f"a dict of the state: {str(error).removeprefix('the pickle ')}") from None


def _check_memory(name: str, tensor: Any) -> None:
    """Refuses tensors without their own bytes: composed ones, and fake ones."""
    if not hasattr(tensor, "data_ptr"):
        return
    has_memory = str(tensor.layout) == "torch.strided" and not tensor.is_nested
    has_memory = has_memory and not hasattr(tensor, "device_mesh") and not hasattr(tensor, "fake_mode")
    if has_memory:
        try:
            has_memory = tensor.numel() == 0 or tensor.data_ptr() != 0
        except RuntimeError:
            has_memory = False
    if not has_memory or tensor.is_meta:
        raise CheckpointError(f"{name} is a {type(tensor).__name__} on {tensor.device}, {tensor.layout}, without "
                              "memory of its own: save a plain tensor, or distributed ones by "
                              "torch.distributed.checkpoint with Writer")


def _identity(tensor: Any) -> tuple[Any, ...]:
    if hasattr(tensor, "data_ptr"):
        if tensor.numel() == 0:
            return (id(tensor),)
        return (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.is_conj(),
                tensor.is_neg())
    return (id(tensor),)
