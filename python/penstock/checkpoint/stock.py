# SPDX-License-Identifier: Apache-2.0

"""What folders of safetensors need: an index for stock readers, and a way to take a place in one step."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import secrets
import shutil
import time
from pathlib import Path

from penstock.checkpoint.generations import ABANDONED_S, VERIFIED, make_folder, names_in, read_layout
from penstock.checkpoint.layout import NAME, CheckpointError, Layout
from penstock.weights.headers import INDEX

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # As linux/fcntl.h and linux/fs.h have them.


def index_of(layout: Layout) -> bytes | None:
    """The index of a sharded model. None where a tensor lies in pieces, or the files are no safetensors."""
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
    """Raises CheckpointError where a folder has what is no part of its checkpoint, and OSError where the file system
    cannot have it and another change places. `beside`: a folder on the same file system."""
    names = os.listdir(target) if target.exists() else []
    strangers = sorted(set(names) - _names_of(target))
    if strangers:
        raise CheckpointError(f"{target}: it has {strangers[0]!r}, which is no part of a checkpoint there and would go "
                              "with it: move that away, or save to another folder")
    if names:
        _try_exchange(beside)


def _names_of(target: Path) -> set[str]:
    try:
        return {NAME, VERIFIED, INDEX, *read_layout(target).files}
    except FileNotFoundError:
        return set()


def _try_exchange(beside: Path) -> None:
    pair = [beside / f"try-{secrets.token_hex(4)}" for _ in range(2)]
    try:
        for folder in pair:
            folder.mkdir()
        _exchange(*pair)
    finally:
        for folder in pair:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _exchange(one: Path, other: Path) -> None:
    """Each has the other's name from the same moment on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) != 0:
        number = ctypes.get_errno()
        if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise OSError(number, "this file system cannot replace a folder in one step: save to a folder that is not "
                          "there yet", str(other))
        raise OSError(number, os.strerror(number), str(other))


def put_in_place(whole: Path, target: Path, *, durable: bool) -> None:
    """The folder gets its name, in one step. What had it before is removed when the new name is on the disk."""
    try:
        check_replaceable(target, whole.parent)
    except BaseException:
        shutil.rmtree(whole, ignore_errors=True)  # Nobody would look for it there.
        raise
    is_replaced = target.exists() and bool(os.listdir(target))
    if is_replaced:
        _exchange(whole, target)
    else:
        whole.rename(target)
    if durable:
        make_folder(target)
    if is_replaced:
        for name in _names_of(whole):
            (whole / name).unlink(missing_ok=True)
        whole.rmdir()


def sweep(staging: Path) -> None:
    """Takes away what saves that never ended have left, and the folder with the last of it."""
    for each in (staging / name for name in names_in(staging)):
        with contextlib.suppress(OSError):
            if time.time() - each.lstat().st_mtime <= ABANDONED_S:
                continue
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink()
    with contextlib.suppress(OSError):
        staging.rmdir()
