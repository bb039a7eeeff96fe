# SPDX-License-Identifier: Apache-2.0

"""The data files of one rank: assigns contents to files, and writes each file with its own thread.

The inode's lock limits the rate of one file, so a rank writes several. Bytes move directly from their memory, also a
GPU's, by the session's best path; checksums before and after detect bytes that changed meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.checkpoint.governing import FULL, Pace
from penstock.checkpoint.layout import ALIGNMENT, PIECE_BYTES, CheckpointError, Extent
from penstock.checkpoint.leftovers import wait_for_removals
from penstock.checkpoint.memory import Order, bytes_of, request_bytes
from penstock.files import File, NewFile
from penstock.progress import OnProgress, Progress, Shared
from penstock.sessions import Session, default_session
from penstock.threads import for_each

FILES_MAX = 16          # Files per rank: on an H200 machine sixteen wrote six times as fast as one.
FILE_BYTES_MIN = 32 << 20
WRITERS_BESIDE_MIN = 2


def writers_beside() -> int:
    """Threads that write beside a trainer, which needs CPUs of its own to keep a GPU busy."""
    count = len(os.sched_getaffinity(0))
    return max(min(WRITERS_BESIDE_MIN, count // 2), count // 4, 1)


@dataclass(frozen=True)
class Content:
    """Data to store: its size in bytes, and a function that returns it, called once by the thread that writes it.

    The function returns a row-major tensor, or anything with the buffer protocol. sums: the checksums of its pieces,
    if they are known; other bytes fail the save.
    """

    name: str
    nbytes: int
    resolve: Callable[[], Any]
    sums: Sequence[int] | None = None


@dataclass
class _File:
    name: str
    nbytes: int
    contents: list[tuple[int, Content, int]]  # (index, content, offset in the file).


DESCRIPTION_BYTES = 400  # Approximate bytes of a tensor in checkpoint.json.


def aligned(nbytes: int) -> int:
    return (nbytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def room_of(name: str, nbytes: int) -> int:
    """Space that it takes on the disk."""
    return aligned(nbytes) + len(name) + DESCRIPTION_BYTES


def check_room(folder: Path, nbytes: int) -> None:
    """Raises OSError (ENOSPC) if the file system has fewer bytes free."""
    if nbytes > _free(folder):
        wait_for_removals()
    free = _free(folder)
    if nbytes > free:
        raise OSError(errno.ENOSPC, f"the checkpoint takes {nbytes} bytes, of which {free} are free: nothing was "
                      "written. Remove older checkpoints, or name another folder", str(folder))


DIRECT_PATHS = ("p2pdma", "dmabuf", "nvfs", "vendor")


@dataclass
class Stored:
    """The place of each content, in the given order, and the progress."""

    extents: list[Extent]
    progress: Progress


def _free(folder: Path) -> int:
    """Bytes free where the folder is, or will be: whoever sweeps may have removed an empty one in between."""
    for place in (folder, *folder.parents):
        with contextlib.suppress(FileNotFoundError):
            facts = os.statvfs(place)
            return facts.f_bavail * facts.f_frsize
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))


def goes_direct(session: Session, durable: bool, wanted: bool | None) -> bool:
    """Whether files are opened with O_DIRECT."""
    if wanted is not None:
        return wanted
    return durable and any(each["path"] in DIRECT_PATHS and each["usable"] for each in session.outlook())


class Storing:
    """Writes the contents to new files whose names begin with `prefix`. After a failure the caller removes them.

    durable: the files are on the disk when finish() returns. direct: with O_DIRECT; None: only if a GPU's bytes then go
    directly to the drive. writers: threads that write, at this pace; 0: one a file. Create it on the thread whose
    queued GPU work produces the bytes.
    """

    def __init__(self, folder: Path, prefix: str, contents: Sequence[Content], *, session: Session | None = None,
                 durable: bool = True, direct: bool | None = None, on_progress: OnProgress | None = None,
                 writers: int = 0, pace: Pace = FULL) -> None:
        self._folder, self._durable, self._writers, self._pace = folder, durable, writers, pace
        self._session = session or default_session()
        self._direct, self._order = goes_direct(self._session, durable, direct), Order()
        self._files, self._opened = _placed(prefix, contents), dict[str, File]()
        self._extents: list[Extent | None] = [None] * len(contents)
        self._told = Shared(sum(content.nbytes for content in contents), on_progress)

    @property
    def names(self) -> list[str]:
        """Names of the files."""
        return [file.name for file in self._files]

    def write(self) -> None:
        """Writes all contents; afterwards they may change."""
        self._by_threads(self._write, self._writers)

    def finish(self) -> Stored:
        """Flushes and names the files."""
        self._by_threads(self._publish)
        self._told.count()
        return Stored([extent for extent in self._extents if extent is not None], self._told.progress)

    def _by_threads(self, work: Callable[[_File], None], most: int = 0) -> None:
        try:
            for_each(work, self._files, most or len(self._files))
        except BaseException:
            for opened in self._opened.values():
                opened.close()
            raise

    def _write(self, file: _File) -> None:
        self._order.come_behind()
        place = self._folder / file.name
        opened = self._opened[file.name] = (self._session.create(place, direct=self._direct) if self._durable
                                            else self._session.open(place, "x", direct=self._direct))
        for which, content, offset in file.contents:
            sums = write_content(self._session, opened, content, offset, self._told, self._pace)
            self._extents[which] = Extent(file.name, offset, content.nbytes, tuple(sums))

    def _publish(self, file: _File) -> None:
        opened = self._opened[file.name]
        if isinstance(opened, NewFile):
            opened.publish()
        opened.close()


def _placed(prefix: str, contents: Sequence[Content]) -> list[_File]:
    """Assigns the largest content first, each to the smallest file, so that files have similar sizes."""
    total = sum(content.nbytes for content in contents)
    count = max(1, min(FILES_MAX, total // FILE_BYTES_MIN, len(contents))) if contents else 0
    files = [_File(f"{prefix}-{i}.data", 0, []) for i in range(count)]
    for which in sorted(range(len(contents)), key=lambda i: -contents[i].nbytes):
        file = min(files, key=lambda each: each.nbytes)
        file.contents.append((which, contents[which], file.nbytes if contents[which].nbytes else 0))
        file.nbytes += aligned(contents[which].nbytes)
    return files


def write_content(session: Session, file: File, content: Content, offset: int, counter: Shared,
                  pace: Pace = FULL) -> list[int]:
    """Writes the content, and returns the checksums of its pieces."""
    found = bytes_of(content.resolve())
    if found.nbytes != content.nbytes:
        raise CheckpointError(f"{content.name!r} has {found.nbytes} bytes, and {content.nbytes} were planned: it "
                              "changed while it was saved")
    sums, step = [], request_bytes(found)
    for at in range(0, content.nbytes, step):
        part = found[at:at + step]
        before = _known_sums(content, at, part.nbytes) or session.crc32c(part, PIECE_BYTES)
        for begin, each in pace.pieces(part):
            counter.count(file.write(each, offset + at + begin))
        if session.crc32c(part, PIECE_BYTES) != before:
            raise CheckpointError(f"{content.name!r} changed while it was saved: let nothing write to it meanwhile, or "
                                  "save a copy")
        sums += before
    return sums


def _known_sums(content: Content, at: int, nbytes: int) -> list[int]:
    first, last = at // PIECE_BYTES, (at + nbytes + PIECE_BYTES - 1) // PIECE_BYTES
    return list(content.sums[first:last]) if content.sums is not None else []
