# SPDX-License-Identifier: Apache-2.0

"""The data files of one rank: what goes where, and the writing of it, each file by a thread of its own.

One file is bound by its inode's lock, so that a rank writes several. Bytes go from where they are, of a GPU too, by the
best path that the session has; their checksums are made before and after, so that what changed meanwhile is told.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.checkpoint.layout import ALIGNMENT, PIECE_BYTES, REQUEST_BYTES, CheckpointError, Extent
from penstock.checkpoint.memory import Order, bytes_of
from penstock.checkpoint.progress import OnProgress, Shared
from penstock.files import File
from penstock.sessions import Session, default_session
from penstock.weights.plan import Progress

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


DIRECT_PATHS = ("p2pdma", "vendor")


@dataclass
class Stored:
    """Where each content is, in the order in which they were given, and what it took."""

    extents: list[Extent]
    progress: Progress


def store(folder: Path, prefix: str, contents: Sequence[Content], *, session: Session | None = None,
          durable: bool = True, direct: bool | None = None, on_progress: OnProgress | None = None) -> Stored:
    """Writes the contents to new files whose names begin with `prefix`.

    durable: the files are on the disk when it returns. direct: by O_DIRECT; None: where a GPU's bytes go straight to
    the drive then. A failure leaves none of the files, so far as they can be removed.
    """
    session = session or default_session()
    if direct is None:
        direct = durable and any(each["path"] in DIRECT_PATHS and each["usable"] for each in session.outlook())
    files, order = _placed(prefix, contents), Order()
    extents: list[Extent | None] = [None] * len(contents)
    told = Shared(sum(content.nbytes for content in contents), on_progress)

    def write(file: _File) -> None:
        order.come_behind()
        place = folder / file.name
        with session.create(place, direct=direct) if durable else session.open(place, "x", direct=direct) as opened:
            for which, content, offset in file.contents:
                sums = _write(session, opened, content, offset, told)
                extents[which] = Extent(file.name, offset, content.nbytes, tuple(sums))

    try:
        with ThreadPoolExecutor(max(len(files), 1), "penstock-checkpoint") as threads:
            for done in [threads.submit(write, file) for file in files]:
                done.result()
    except BaseException:
        for file in files:
            (folder / file.name).unlink(missing_ok=True)
        raise
    told.count()
    return Stored([extent for extent in extents if extent is not None], told.progress)


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


def _write(session: Session, file: File, content: Content, offset: int, told: Shared) -> list[int]:
    """The checksums of its pieces."""
    found = bytes_of(content.resolve())
    if found.nbytes != content.nbytes:
        raise CheckpointError(f"{content.name!r} has {found.nbytes} bytes, and {content.nbytes} were planned: it "
                              "changed while it was saved")
    sums = []
    for at in range(0, content.nbytes, REQUEST_BYTES):
        part = found[at:at + REQUEST_BYTES]
        before = session.crc32c(part, PIECE_BYTES)
        told.count(file.write(part, offset + at))
        if session.crc32c(part, PIECE_BYTES) != before:
            raise CheckpointError(f"{content.name!r} changed while it was saved: let nothing write to it meanwhile, or "
                                  "save a copy")
        sums += before
    return sums
