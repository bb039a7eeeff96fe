# SPDX-License-Identifier: Apache-2.0

"""Reads bytes of data files into existing memory, by a few threads, and compares the checksum of each 16 MiB.

For GPU memory they move by the session's best path, and the GPU computes the checksums.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.checkpoint.layout import PIECE_BYTES, CheckpointError, Extent
from penstock.checkpoint.memory import Order, bytes_of, request_bytes
from penstock.checkpoint.reading import is_regular
from penstock.checkpoint.verifying import check_sums
from penstock.files import File
from penstock.progress import OnProgress, Progress, Shared
from penstock.sessions import Session, default_session
from penstock.threads import for_each

THREADS = 8

log = logging.getLogger("penstock.checkpoint")


@dataclass(frozen=True)
class Wanted:
    """Bytes `begin` to `begin + target.nbytes` of an extent, and their target memory, which is row-major."""

    name: str
    extent: Extent
    begin: int
    target: Any


def restore(folder: Path, wanted: Iterable[Wanted], session: Session | None = None,
            on_progress: OnProgress | None = None) -> Progress:
    """Returns the bytes by path. Raises CheckpointError, with the file's name, for a truncated file or a wrong
    checksum.

    Checksums cover pieces of 16 MiB from an extent's begin: pieces that are wanted only in part are not checked.
    """
    session = session or default_session()
    pieces = sorted((piece for each in wanted for piece in _pieces_of(each)),
                    key=lambda piece: (piece.extent.file, piece.extent.offset + piece.begin))
    order = Order()
    counter = Shared(sum(piece.target.nbytes for piece in pieces), on_progress)
    files: dict[str, File] = {}
    try:
        for piece in pieces:
            if piece.extent.file not in files:
                if not is_regular(folder / piece.extent.file):
                    raise CheckpointError(f"{folder / piece.extent.file}: this is no regular file")
                files[piece.extent.file] = session.open(folder / piece.extent.file, once=True)
        count = max(1, min(THREADS, len(pieces)))

        def read(share: list[Wanted]) -> None:
            _read_all(session, folder, files, share, order, counter)

        for_each(read, [pieces[i::count] for i in range(count)], count)
        return counter.progress
    finally:
        for file in files.values():
            file.close()


def tell_of_load(folder: Path, done: Progress) -> None:
    log.info("%s: loaded %s", folder, done)


def _pieces_of(wanted: Wanted) -> Iterable[Wanted]:
    target = bytes_of(wanted.target)
    end = wanted.begin + target.nbytes
    at = wanted.begin
    if end > wanted.extent.nbytes:
        raise CheckpointError(f"{wanted.name!r} has {wanted.extent.nbytes} bytes, and {end} are wanted")
    while at < end:
        stop = min(end, at // PIECE_BYTES * PIECE_BYTES + request_bytes(target))
        yield Wanted(wanted.name, wanted.extent, at, target[at - wanted.begin:stop - wanted.begin])
        at = stop


def _read_all(session: Session, folder: Path, files: dict[str, File], pieces: list[Wanted], order: Order,
              counter: Shared) -> None:
    order.come_behind()
    for piece in pieces:
        extent, size = piece.extent, piece.target.nbytes
        report = files[extent.file].read(piece.target, extent.offset + piece.begin, size=size)
        if report.bytes != size:
            end = extent.offset + piece.begin + report.bytes
            raise CheckpointError(f"{folder / extent.file}: it ends at {end}, and {piece.name!r} goes to "
                                  f"{extent.offset + extent.nbytes}: it was cut")
        _compare(session, folder, piece)
        counter.count(report)


def _compare(session: Session, folder: Path, wanted: Wanted) -> None:
    """Compares the checksums of pieces that were read whole."""
    end = wanted.begin + wanted.target.nbytes
    first = -(-wanted.begin // PIECE_BYTES) * PIECE_BYTES
    last = end if end == wanted.extent.nbytes else end // PIECE_BYTES * PIECE_BYTES
    if first < last:
        sums = session.crc32c(wanted.target[first - wanted.begin:last - wanted.begin], PIECE_BYTES)
        check_sums(folder, wanted.name, wanted.extent, first, sums)
