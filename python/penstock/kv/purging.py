# SPDX-License-Identifier: Apache-2.0

"""penstock.kv.purge: removes a model's and tenant's chunks from folders without opening a store."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from penstock.kv.names import Key, Namer
from penstock.kv.store import Folder
from penstock.regular import open_regular

__all__ = ["purge"]


def purge(folders: Folder | Sequence[Folder], *, model: str, dtype: str = "", layout: str = "", salt: Key = b"") -> int:
    """Removes all chunks of a model and a tenant from the folders. Returns the number of sub-stores removed.

    Raises BlockingIOError at the end if a process has a sub-store open for writing, which stays: close that store
    first.
    """
    namer, removed = Namer(model, dtype, layout, salt), 0
    written: list[str] = []
    for path in [folders] if isinstance(folders, (str, os.PathLike)) else folders:
        folder = Path(path) / namer.store.hex()
        for sub_store in sorted(folder.iterdir()) if folder.is_dir() else []:
            with open(open_regular(sub_store / "lease", follow=False), "rb") as lease:
                try:
                    fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    written.append(str(sub_store))
                    continue
                shutil.rmtree(sub_store)
            removed += 1
        with contextlib.suppress(OSError):  # It is missing, or another process writes it.
            folder.rmdir()
    if written:
        raise BlockingIOError(errno.EWOULDBLOCK, "a process writes it: close that store first", ", ".join(written))
    return removed
