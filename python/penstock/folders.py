# SPDX-License-Identifier: Apache-2.0

"""Folders whose names are to be on the disk: one rule for checkpoints, KV stores and staged files."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def flush_folder(folder: Path | int) -> None:
    """The names in a folder, of which a descriptor may be given, are on the disk. Some file systems do not know how to
    flush a folder (EINVAL), and their names are as durable as they can be: as src/base/new_file.cc judges, too."""
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
    """With those above it. durable: it is there after a crash, too. Who made it before may not have flushed its name.
    mode: of those that are made here."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing or [folder]):
        each.mkdir(mode, exist_ok=True)
    for each in (missing or [folder]) if durable else ():
        flush_folder(each.parent)
