# SPDX-License-Identifier: Apache-2.0

"""The begin of a save: its folder, its lease, and hard links to what it need not write."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.checkpoint.ids import new_lease
from penstock.checkpoint.layout import Extent, Layout, encode
from penstock.checkpoint.leases import Lease
from penstock.checkpoint.leftovers import give_up, sweep
from penstock.checkpoint.pieces import Piece
from penstock.checkpoint.storing import FILES_MAX, check_room, room_of
from penstock.folders import flush_folder, make_folder
from penstock.threads import for_each

FLUSHERS = 8
FILES_KNOWN_MAX = 1 << 16

Identity = tuple[int, ...]
_known: dict[Identity, None] = {}  # Data files of this process's saves, those used last behind the others.


@dataclass(frozen=True)
class Links:
    """What a save did not write, and in how many files of the save before it lies. why_not: why something was written
    that did not change; None if nothing was."""

    nbytes: int
    files: int
    why_not: str | None

    def __str__(self) -> str:
        return f"{self.nbytes} bytes linked in {self.files} files" + ("" if self.why_not is None else
                                                                      f" ({self.why_not})")


class Start:
    """A save that is to be given up by one who sees all of it: Save does not do so.

    extents: those that are linked, under the names that the links have; names: of all files of the save. Of a save of
    what changed: hashes and sums of all pieces, and why_not: why something is not linked.
    """

    lease: Lease

    def __init__(self, folder: Path, tree: Any, *, durable: bool) -> None:
        self.folder, self.durable, self.layout, self.is_begun = folder, durable, Layout("", tree=tree), False
        self.names: list[str] = []
        self.extents: dict[Piece, Extent] = {}
        self.hashes: Mapping[Piece, int] = {}
        self.sums: Mapping[Piece, Sequence[int]] = {}
        self.why_not: str | None = None

    def begin(self, pieces: Iterable[Piece]) -> None:
        """Raises OSError (ENOSPC) before anything is made but the folder, if the pieces do not fit."""
        make_folder(self.folder, durable=self.durable)
        sweep(self.folder)
        self.check_room(pieces)
        self.lease = new_lease(self.folder, durable=self.durable)
        self.layout.save_id, self.is_begun = self.lease.save_id, True

    def check_room(self, pieces: Iterable[Piece]) -> None:
        check_room(self.folder, sum(room_of(each.name, each.nbytes) for each in pieces) + len(encode(self.layout)))

    @contextmanager
    def given_up_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if self.is_begun:
                give_up(self.folder, self.names, self.lease)
            raise

    @property
    def prefix(self) -> str:
        """What the names of its files begin with."""
        return f"{self.layout.save_id}-0"

    def link(self, path: Path, facts: os.stat_result, extents: Mapping[Piece, Extent]) -> None:
        """Links a data file, if that can be and it is the one that was looked at."""
        name = f"{self.prefix}-{FILES_MAX + len(self.names)}.data"
        self.names.append(name)
        try:
            os.link(path, self.folder / name, follow_symlinks=False)
            if _identity(os.lstat(self.folder / name)) == _identity(facts):
                self.extents.update({piece: replace(extent, file=name) for piece, extent in extents.items()})
                return
            self.why_not = f"{path}: it was replaced just now"
            os.unlink(self.folder / name)
        except OSError as error:
            self.why_not = f"{path}: {error.strerror}"

    @property
    def _linked(self) -> set[str]:
        return {extent.file for extent in self.extents.values()}

    @property
    def links(self) -> Links:
        return Links(sum(extent.nbytes for extent in self.extents.values()), len(self._linked), self.why_not)

    def remember(self) -> None:
        """To be called once the save is published: later ones of this process may link its files."""
        for name in self.layout.files:
            with suppress(OSError):  # Somebody removes it just now.
                known = _identity(os.lstat(self.folder / name))
                _known.pop(known, None)
                _known[known] = None
        for known in list(_known)[:-FILES_KNOWN_MAX]:
            _known.pop(known, None)

    def flush_links(self) -> None:
        """Flushes their bytes, which a save before may not have done, and their names."""
        if self.durable and self._linked:
            for_each(_flush, [self.folder / name for name in self._linked], FLUSHERS)
            flush_folder(self.folder)


def is_known(facts: os.stat_result) -> bool:
    """Whether a save of this process wrote the data file: of others' nobody knows whether its bytes are still those of
    its checksums."""
    return _identity(facts) in _known


def _identity(facts: os.stat_result) -> Identity:
    return facts.st_dev, facts.st_ino, stat.S_IFMT(facts.st_mode), facts.st_size, facts.st_mtime_ns


def _flush(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
