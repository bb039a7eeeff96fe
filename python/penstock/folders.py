# SPDX-License-Identifier: Apache-2.0

"""Durable folders: one rule for checkpoints, KV stores and staged files."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def flush_folder(folder: Path | int) -> None:
    """Flushes the names in a folder (a path or a descriptor) to the disk. Some file systems cannot flush a folder
    (EINVAL), which counts as success, as in src/base/new_file.cc."""
    fd = folder if isinstance(folder, int) else os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise OSError(error.errno, f"flush the folder: {error.strerror}", str(folder)) from None
    finally:
        if fd is not folder:
            os.close(fd)


def make_folder(folder: Path, *, durable: bool = True, mode: int = 0o777) -> None:
    """Makes the folder and its parents. durable: it survives a crash, also if somebody else made it without a flush.
    mode: for the folders made here."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing or [folder]):
        _make_one(each, mode)
    for each in (missing or [folder]) if durable else ():
        flush_folder(each.parent)


def _make_one(folder: Path, mode: int) -> None:
    try:
        folder.mkdir(mode, exist_ok=True)
    except FileExistsError:
        if os.path.lexists(folder):
            raise
        folder.mkdir(mode, exist_ok=True)  # Another process removed it between the two looks of mkdir().
