# SPDX-License-Identifier: Apache-2.0

"""Bytes of data files into memory that is there, by a few threads, each piece of 16 MiB with its checksum compared.

Bytes for a GPU come through pinned host memory, where their checksums are made.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock._native import Report
from penstock.checkpoint.generations import check_sums, is_regular
from penstock.checkpoint.layout import PIECE_BYTES, CheckpointError, Extent
from penstock.checkpoint.windows import Window, bytes_of, order_of_gpus
from penstock.files import File
from penstock.sessions import Session, default_session
from penstock.weights.plan import Progress

THREADS = 8


@dataclass(frozen=True)
class Wanted:
    """Bytes `begin` to `begin + target.nbytes` of an extent, and the memory that they go to, which lies row by row."""

    name: str
    extent: Extent
    begin: int
    target: Any


def restore(folder: Path, wanted: Iterable[Wanted], session: Session | None = None,
            on_progress: Callable[[Progress], None] | None = None) -> None:
    """Raises CheckpointError, with the file's name, for what was cut and for a wrong checksum.

    Checksums cover pieces of 16 MiB from an extent's begin: of those that are wanted in part none is compared.
    """
    session = session or default_session()
    pieces = sorted((piece for each in wanted for piece in _pieces_of(each)),
                    key=lambda piece: (piece.extent.file, piece.extent.offset + piece.begin))
    ready = order_of_gpus()
    told = _Told(sum(piece.target.nbytes for piece in pieces), on_progress)
    files: dict[str, File] = {}
    try:
        for piece in pieces:
            if piece.extent.file not in files:
                if not is_regular(folder / piece.extent.file):
                    raise CheckpointError(f"{folder / piece.extent.file}: this is no regular file")
                files[piece.extent.file] = session.open(folder / piece.extent.file)
        count = max(1, min(THREADS, len(pieces)))
        with ThreadPoolExecutor(count, "penstock-checkpoint") as threads:
            for done in [threads.submit(_read_all, folder, files, pieces[i::count], ready, told) for i in range(count)]:
                done.result()
    finally:
        for file in files.values():
            file.close()


def _pieces_of(wanted: Wanted) -> Iterable[Wanted]:
    target = bytes_of(wanted.target)
    end = wanted.begin + target.nbytes
    at = wanted.begin
    if end > wanted.extent.nbytes:
        raise CheckpointError(f"{wanted.name!r} has {wanted.extent.nbytes} bytes, and {end} are wanted")
    while at < end:
        stop = min(end, at // PIECE_BYTES * PIECE_BYTES + PIECE_BYTES)
        yield Wanted(wanted.name, wanted.extent, at, target[at - wanted.begin:stop - wanted.begin])
        at = stop


class _Told:
    """How far all threads are together."""

    def __init__(self, total: int, on_progress: Callable[[Progress], None] | None) -> None:
        self._progress, self._on_progress = Progress(total), on_progress
        self._lock, self._began = threading.Lock(), time.monotonic()

    def count(self, report: Report) -> None:
        if self._on_progress is not None:
            with self._lock:
                self._progress.count(report, time.monotonic() - self._began)
                self._on_progress(self._progress)


def _read_all(folder: Path, files: dict[str, File], pieces: list[Wanted], ready: Any, told: _Told) -> None:
    window = Window(ready)
    for piece in pieces:
        extent, size = piece.extent, piece.target.nbytes
        with window.filled(piece.target) as memory:
            report = files[extent.file].read(memory, extent.offset + piece.begin, size=size)
            if report.bytes != size:
                end = extent.offset + piece.begin + report.bytes
                raise CheckpointError(f"{folder / extent.file}: it ends at {end}, and {piece.name!r} goes to "
                                      f"{extent.offset + extent.nbytes}: it was cut")
            is_whole = piece.begin % PIECE_BYTES == 0 and piece.begin + size == min(extent.nbytes,
                                                                                    piece.begin + PIECE_BYTES)
            if is_whole:
                check_sums(folder, piece.name, extent, piece.begin, memory)
        told.count(report)
