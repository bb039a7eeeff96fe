# SPDX-License-Identifier: Apache-2.0

"""Folders of safetensors: an index for stock readers, and the replacement of a folder in one step."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path

from penstock.checkpoint.layout import NAME, CheckpointError, Layout
from penstock.checkpoint.leases import LEASE
from penstock.checkpoint.leftovers import VERIFIED, names_of, remove_files, sweep
from penstock.checkpoint.reading import read_layout
from penstock.checkpoint.renaming import exchange
from penstock.folders import flush_folder


def index_of(layout: Layout) -> bytes | None:
    """The index of a sharded model. None if a tensor is in pieces, or the files are not safetensors."""
    placed = {}
    for name, tensor in layout.tensors.items():
        if [chunk.shape for chunk in tensor.chunks] != [tensor.shape]:
            return None
        placed[name] = tensor.chunks[0].extent.file
    if not placed or set(placed.values()) - set(layout.headers):
        return None
    total = sum(tensor.chunks[0].extent.nbytes for tensor in layout.tensors.values())
    return (json.dumps({"metadata": {"total_size": total}, "weight_map": placed}, indent=2) + "\n").encode()


def check_replaceable(target: Path, beside: Path) -> None:
    """Raises CheckpointError if the folder has files that are not part of its checkpoint, and OSError if the file
    system cannot exchange two folders. `beside`: a folder on the same file system."""
    sweep(target)
    names = os.listdir(target) if target.exists() else []
    strangers = sorted(set(names) - _names_of(target))
    if any(map(LEASE.fullmatch, strangers)):
        lease = next(filter(LEASE.fullmatch, strangers))
        raise CheckpointError(f"{target}: another save to it goes on, or it cannot be known whether it does: wait for "
                              f"its end; where no save runs on any machine, remove {lease}")
    if strangers:
        raise CheckpointError(f"{target}: it has {strangers[0]!r}, which is no part of a checkpoint there and would go "
                              "with it: move that away, or save to another folder")
    if names:
        _try_exchange(beside)


def _names_of(target: Path) -> set[str]:
    try:
        return {NAME, VERIFIED, *names_of(read_layout(target))}
    except FileNotFoundError:
        return set()


def _try_exchange(beside: Path) -> None:
    pair = [beside / f"try-{secrets.token_hex(4)}" for _ in range(2)]
    try:
        for folder in pair:
            folder.mkdir()
        exchange(*pair)
    finally:
        for folder in pair:
            with contextlib.suppress(OSError):
                folder.rmdir()


def put_in_place(whole: Path, target: Path, *, durable: bool) -> None:
    """Renames the folder in one step. The old folder is removed once the new name is on the disk."""
    check_replaceable(target, whole.parent)
    is_replaced = target.exists() and bool(os.listdir(target))
    if is_replaced:
        exchange(whole, target)
    else:
        whole.rename(target)
    if durable:
        flush_folder(target.parent)
    if is_replaced:
        remove_files([whole])
