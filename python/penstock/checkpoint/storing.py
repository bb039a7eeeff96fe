# SPDX-License-Identifier: Apache-2.0

"""The data files of one rank: what goes where, and the writing of it, each file by a thread of its own.

One file is bound by its inode's lock, so that a rank writes several. Checksums are made of host memory, so that bytes
of a GPU come there in pieces of 16 MiB, of which each thread has one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import _native
from penstock.checkpoint.layout import ALIGNMENT, PIECE_BYTES, CheckpointError, Extent
from penstock.checkpoint.windows import Window, bytes_of, order_of_gpus
from penstock.sessions import Session, default_session

FILES_MAX = 8           # Of a rank: on an H200's machine eight wrote five times what one does.
FILE_BYTES_MIN = 32 << 20


@dataclass(frozen=True)
class Content:
    """Something to store: its size in bytes, and what gives it, called once, by the thread that writes it.

    What it gives is a tensor that lies row by row, or anything with the buffer protocol.
    """

    name: str
    nbytes: int
    resolve: Callable[[], Any]


@dataclass
class _File:
    name: str
    nbytes: int
    contents: list[tuple[int, Content, int]]  # (which, what, where in the file).


DESCRIPTION_BYTES = 400  # Of a tensor in checkpoint.json, about.


def _aligned(nbytes: int) -> int:
    return (nbytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def room_of(content: Content) -> int:
    """On the disk."""
    return _aligned(content.nbytes) + len(content.name) + DESCRIPTION_BYTES


def check_room(folder: Path, nbytes: int) -> None:
    """Raises OSError (ENOSPC) where the file system has fewer bytes free."""
    import errno

    facts = os.statvfs(folder)
    free = facts.f_bavail * facts.f_frsize
    if nbytes > free:
        raise OSError(errno.ENOSPC, f"the checkpoint takes {nbytes} bytes, of which {free} are free: nothing was "
                      "written. Remove older checkpoints, or name another folder", str(folder))


def store(folder: Path, prefix: str, contents: Sequence[Content], *, session: Session | None = None,
          durable: bool = True) -> list[Extent]:
    """Writes the contents to new files whose names begin with `prefix`. Where each is, in the order given.

    durable: the files are on the disk when it returns. A failure leaves none of them, so far as they can be removed.
    """
    files = _placed(prefix, contents)
    extents: list[Extent | None] = [None] * len(contents)
    session = session or default_session()
    ready = order_of_gpus()

    def write(file: _File) -> None:
        window = Window(ready)
        with session.create(folder / file.name) if durable else session.open(folder / file.name, "x") as opened:
            for which, content, offset in file.contents:
                sums = _write(opened, window, content, offset)
                extents[which] = Extent(file.name, offset, content.nbytes, tuple(sums))

    try:
        with ThreadPoolExecutor(max(len(files), 1), "penstock-checkpoint") as threads:
            for done in [threads.submit(write, file) for file in files]:
                done.result()
    except BaseException:
        for file in files:
            (folder / file.name).unlink(missing_ok=True)
        raise
    return [extent for extent in extents if extent is not None]


def _placed(prefix: str, contents: Sequence[Content]) -> list[_File]:
    """The largest first, each into the file that has least: so files are of like size."""
    total = sum(content.nbytes for content in contents)
    count = max(1, min(FILES_MAX, total // FILE_BYTES_MIN, len(contents))) if contents else 0
    files = [_File(f"{prefix}-{i}.data", 0, []) for i in range(count)]
    for which in sorted(range(len(contents)), key=lambda i: -contents[i].nbytes):
        file = min(files, key=lambda each: each.nbytes)
        file.contents.append((which, contents[which], file.nbytes if contents[which].nbytes else 0))
        file.nbytes += _aligned(contents[which].nbytes)
    return files


def _write(file: Any, window: Window, content: Content, offset: int) -> list[int]:
    """In pieces, each with its checksum."""
    found = bytes_of(content.resolve())
    size = found.nbytes
    if size != content.nbytes:
        raise CheckpointError(f"{content.name!r} has {size} bytes, and {content.nbytes} were planned: it changed "
                              "while it was saved")
    sums = []
    for at in range(0, size, PIECE_BYTES):
        piece = window.taken(found[at:at + PIECE_BYTES])
        sums += _native.crc32c(piece, PIECE_BYTES)
        file.write(piece, offset + at)
    return sums
