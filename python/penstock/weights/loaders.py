# SPDX-License-Identifier: Apache-2.0

"""Replacements for the calls of other loaders."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from penstock import _native
from penstock.files import File
from penstock.sessions import Session, default_session
from penstock.weights import arrays
from penstock.weights.files import copied, mode_over
from penstock.weights.headers import Weights
from penstock.weights.opened import check_backend
from penstock.weights.plan import Plan
from penstock.weights.runs import PAGE
from penstock.weights.tensors import StateError, Tensor, WeightsError, format_shape, named

if TYPE_CHECKING:
    import torch


STOCK_ALIGNMENT = 8  # Of the data in the files that safetensors itself writes.


def load_file(filename: str | os.PathLike[str], device: Any = "cpu", *, backend: str = "mmap",
              session: Session | None = None) -> dict[str, torch.Tensor]:
    """In place of `safetensors.torch.load_file`: all tensors of a file, by name."""
    check_backend(backend)
    loaded = Weights([filename]).plan(device=device, session=session).load()
    return dict(sorted(loaded.items()))


def load_model(module: torch.nn.Module, paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
               strict: bool = True, device: Any = None, *, backend: str = "mmap",
               session: Session | None = None) -> tuple[list[str], list[str]]:
    """In place of `safetensors.torch.load_model`: fills a module's parameters and buffers, a few ranges at a time.

    The tensors come to `device` (that of the module's first parameter, if nothing is said), and are copied from there
    with the module's dtypes. Returns the names that the files lack, and those that the module lacks; with `strict`
    either is a WeightsError (and a RuntimeError, as theirs), before anything is read. So are two names of one parameter
    for which the files have different tensors, when the second one is there. A module whose hooks make its state_dict
    of other tensors than its own is refused: `module.load_state_dict(load_file(...))` serves that.
    """
    import torch

    check_backend(backend)
    weights, state = Weights(paths), module.state_dict(keep_vars=True)
    targets = {name: target for name, target in state.items() if isinstance(target, torch.Tensor)}
    _check_own(module, targets)
    loaded = {_place_of(targets[name]) for name in weights.tensors if name in targets and targets[name].numel() > 0}
    # What is tied to another parameter is loaded with it.
    missing = sorted(name for name in state if name not in weights.tensors and (
        name not in targets or targets[name].is_meta or _place_of(targets[name]) not in loaded))
    unexpected = sorted(set(weights.tensors) - set(targets))
    if strict and (missing or unexpected):
        raise disagreement(weights.shown(), missing, unexpected)
    common = [name for name in weights.tensors if name in targets]
    for name in common:
        _check_target(name, weights.tensors[name], targets[name])
    if not common:
        return missing, unexpected
    place = device if device is not None else targets[common[0]].device
    chosen = [(weights.tensors[name], None) for name in common]
    plan = Plan(chosen, place, None, session, weights.identities, check=weights.check)
    unexpected += _fill(plan, targets)
    if strict and unexpected:
        raise disagreement(weights.shown(), [], unexpected, ": for each of them and another name the module has one "
                           "tensor, and the files have two that differ")
    return missing, unexpected


def _fill(plan: Plan, targets: Mapping[str, torch.Tensor]) -> list[str]:
    """Names of tied parameters for which the files have contradicting tensors."""
    import torch

    # By memory: its first name, and whether the contents of other names differ.
    filled: dict[Any, tuple[str, bool]] = {}
    others: set[str] = set()
    with torch.no_grad():
        for name, tensor in plan:
            target = targets[name]
            place = _place_of(target) if target.numel() > 0 else name
            with named(f"{name!r} of the module"):
                before = filled.get(place)
                if before is not None and not _is_same(target, tensor):
                    others.update((before[0], name))
                    filled[place] = min(before[0], name), True
                elif before is not None:
                    filled[place] = min(before[0], name), before[1]
                else:
                    filled[place] = name, False
                target.copy_(tensor)
    return sorted(others - {name for name, differs in filled.values() if differs})


def _is_same(target: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Compares bit for bit, in the target's dtype."""
    import torch

    ours, theirs = (each.reshape(-1).contiguous().view(torch.uint8)
                    for each in (target, tensor.to(target.device, target.dtype)))
    return torch.equal(ours, theirs)


def disagreement(file: str, missing: Iterable[str], unexpected: Iterable[str], why: str = "") -> StateError:
    """Words the error like torch, which callers know."""
    sentences = [f"{what} key(s) in state_dict: {', '.join(json.dumps(name, ensure_ascii=False) for name in names)}"
            for what, names in (("Missing", missing), ("Unexpected", unexpected)) if names]
    return StateError(f"{file} and the module disagree. {'. '.join(sentences)}{why}")


def _check_target(name: str, there: Tensor, target: torch.Tensor) -> None:
    if format_shape(there.dtype, target.shape) != there.shape:
        raise WeightsError(f"tensor {name!r} is {list(there.shape)} in {there.file} and {list(target.shape)} in the "
                           "module")
    if target.is_meta:
        raise WeightsError(f"parameter {name!r} has no memory yet: call module.to_empty(device=...) first")


def _check_own(module: torch.nn.Module, targets: Mapping[str, torch.Tensor]) -> None:
    """Refuses modules whose state_dict returns copies, which cannot be filled."""
    own = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    for name, target in targets.items():
        if id(target) not in own:
            raise WeightsError(f"{name!r} of the module's state_dict() is no parameter or buffer of the module's, but "
                               "made by a hook: call module.load_state_dict(load_file(...))")


def _place_of(tensor: torch.Tensor) -> tuple[int, torch.Size, tuple[int, ...]]:
    return tensor.data_ptr(), tensor.shape, tensor.stride()


def save_file(tensors: Mapping[str, Any], filename: str | os.PathLike[str],
              metadata: Mapping[str, str] | None = None, *, session: Session | None = None) -> None:
    """Replaces `safetensors.torch.save_file` and numpy's: the file appears when it is whole and on the disk.

    A new file gets the mode 0666 less the umask, as open() makes them (safetensors makes 0600), one that replaces
    another the mode of that less the umask. Tensors must be contiguous, on any device, and share no memory: each would
    be written in full, and they would not be tied when loaded. The data begins at a multiple of 4096 bytes, so that
    direct I/O serves it.
    """
    write_file(tensors, filename, metadata, session, may_share=False)


def write_file(tensors: Mapping[str, Any], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None,
               session: Session | None, *, may_share: bool, alignment: int = PAGE) -> None:
    """may_share: tensors that share memory are written once for each name. alignment: of the data in the file."""
    header, placed = _laid_out(tensors, metadata, f"{filename}", may_share, alignment)
    with (session or default_session()).create(filename, replace=True, mode=mode_over(filename)) as file:
        _write(file, tensors, header, placed, f"{filename}")


def save(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None, *,
         session: Session | None = None, alignment: int = PAGE) -> bytes:
    """Replaces `safetensors.torch.save` and numpy's: returns the bytes of such a file."""
    header, placed = _laid_out(tensors, metadata, "save", False, alignment)
    fd = os.memfd_create("penstock")
    try:
        with (session or default_session()).open(fd) as file:
            _write(file, tensors, header, placed, "save")
        with open(fd, "rb", closefd=False) as whole:
            whole.seek(0)
            return whole.read()
    finally:
        os.close(fd)


def load(data: bytes, *, session: Session | None = None) -> dict[str, torch.Tensor]:
    """In place of `safetensors.torch.load`: all tensors of a file's bytes, by name."""
    with copied(io.BytesIO(data)) as file:
        return load_file(file, session=session)


Placed = list[tuple[str, int, int]]


def _laid_out(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None, what: str,
              may_share: bool, alignment: int) -> tuple[bytes, Placed]:
    """The header's bytes, and each tensor's begin and end in the file."""
    _check_texts(tensors, metadata)
    entries = []
    for name, tensor in tensors.items():
        with named(f"tensor {name!r}"):
            entries.append(arrays.described(name, tensor))
    for group in [] if may_share else arrays.sharing(tensors):
        raise StateError(f"tensors {', '.join(map(repr, group[:5]))}{' and others' if len(group) > 5 else ''} share "
                         "memory: each would be written in full, and nothing would tie them when they are loaded. Use "
                         "save_model, which saves one of them, or pass a clone() of each")
    with named(what):
        return _native.make_safetensors_header(entries, None if metadata is None else dict(metadata), alignment)


def _write(file: File, tensors: Mapping[str, Any], header: bytes, placed: Placed, what: str) -> None:
    file.write(header)
    for begin in range(0, len(placed), 512):
        pieces = placed[begin:begin + 512]
        with named(f"{what}: tensors {pieces[0][0]!r} to {pieces[-1][0]!r}"):
            file.writev([arrays.raw_bytes(tensors[name]) for name, _, _ in pieces], pieces[0][1])


def save_model(module: torch.nn.Module, filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None,
               force_contiguous: bool = True, *, session: Session | None = None) -> None:
    """Replaces `safetensors.torch.save_model`: saves one of the tensors that share memory, and `load_model` restores
    the others. The metadata contain its name."""
    state, aliases = dict(module.state_dict()), dict(metadata or {})
    for group in arrays.sharing(state):
        kept = arrays.covering(state, group)
        if kept is None:
            raise StateError(f"tensors {', '.join(map(repr, group))} share memory, and none of them has all of it: "
                             "save a clone() of each with save_file")
        for name in group:
            if name != kept:
                aliases.setdefault(name, kept)
                del state[name]
    save_state(state, filename, aliases, force_contiguous, session)


def save_state(state: Mapping[str, Any], filename: str | os.PathLike[str], metadata: Mapping[str, str],
               force_contiguous: bool, session: Session | None = None, *, alignment: int = PAGE) -> None:
    if force_contiguous:
        state = {name: tensor.contiguous() for name, tensor in state.items()}
    try:
        write_file(state, filename, metadata, session, may_share=False, alignment=alignment)
    except WeightsError as error:
        if "contiguous" not in str(error):
            raise
        raise WeightsError(f"{error}, or use save_model(..., force_contiguous=True)") from None


def _check_texts(tensors: Any, metadata: Any) -> None:
    for what, given in (("tensors", tensors), ("metadata", metadata or {})):
        if not isinstance(given, Mapping):
            raise WeightsError(f"{what} are of type {type(given).__name__}: expected a dict by name")
    for text in (*tensors, *(metadata or {}), *(metadata or {}).values()):
        _check_text(text)


def _check_text(text: Any) -> None:
    try:
        if isinstance(text, str):
            text.encode()
            return
    except UnicodeEncodeError:
        pass
    raise WeightsError(f"names of tensors and metadata are text that UTF-8 can write, and {text!r} is not")
