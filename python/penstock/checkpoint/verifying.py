# SPDX-License-Identifier: Apache-2.0

"""Verifies that a checkpoint has the saved bytes, and records that it does."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from penstock.checkpoint.layout import PIECE_BYTES, CheckpointError, Extent, Layout
from penstock.checkpoint.leftovers import VERIFIED, VERIFIED_BYTES_MAX
from penstock.checkpoint.reading import content_of, folder_of, is_regular, of_one_save, read_layout
from penstock.progress import OnProgress, Shared
from penstock.sessions import Session, default_session
from penstock.threads import for_each

READERS = 4


@dataclass(frozen=True)
class Verified:
    """The verified tensors and objects, and their bytes."""

    names: int
    nbytes: int


def verify(folder: str | os.PathLike[str], *, session: Session | None = None,
           on_progress: OnProgress | None = None) -> Verified:
    """Reads a whole checkpoint and compares every checksum; then records the result for `retain`.

    Raises CheckpointError that names the file, the tensor and the piece of 16 MiB in which the first difference is.
    """
    place = folder_of(folder)
    layout = read_layout(place)
    extents = sorted(layout.extents(), key=lambda each: (each[1].file, each[1].offset))
    counter = Shared(layout.nbytes, on_progress)

    def check(each: tuple[str, Extent]) -> None:
        _check(session or default_session(), place, *each, counter)

    with of_one_save(place, layout):
        for_each(check, extents, READERS)  # A difference is told before the rest is read.
    try:
        with (session or default_session()).create(place / VERIFIED, replace=True) as file:
            file.write(json.dumps({"save_id": layout.save_id}).encode())
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, f"every checksum is right, but that could not be noted for retain: {error}",
                      str(place / VERIFIED)) from None
    return Verified(len(layout.tensors) + len(layout.objects), layout.nbytes)


def _check(session: Session, folder: Path, name: str, extent: Extent, counter: Shared) -> None:
    memory = bytearray(min(extent.nbytes, PIECE_BYTES))
    if not is_regular(folder / extent.file):
        raise CheckpointError(f"{folder / extent.file}: this is no regular file")
    with session.open(folder / extent.file) as file:
        for i, expected in enumerate(extent.crc32c):
            at = i * PIECE_BYTES
            size = min(PIECE_BYTES, extent.nbytes - at)
            report = file.read(memory, extent.offset + at, size=size)
            if report.bytes != size:
                raise CheckpointError(f"{folder / extent.file}: it ends at {extent.offset + at + report.bytes}, and "
                                      f"{name!r} goes to {extent.offset + extent.nbytes}: it was cut")
            check_sums(folder, name, extent, at, session.crc32c(memoryview(memory)[:size]))
            counter.count(report)


def check_sums(folder: Path, name: str, extent: Extent, at: int, sums: list[int]) -> None:
    """Compares the checksums of bytes that begin `at` bytes, a multiple of 16 MiB, after an extent's begin."""
    first = at // PIECE_BYTES
    for i, found in enumerate(sums):
        if found != extent.crc32c[first + i]:
            begin = extent.offset + (first + i) * PIECE_BYTES
            end = min(begin + PIECE_BYTES, extent.offset + extent.nbytes)
            raise CheckpointError(f"{folder / extent.file}: the checksum of {name!r} is wrong between bytes {begin} "
                                  f"and {end}: expected {extent.crc32c[first + i]:08x}, found {found:08x}. Load an "
                                  "older checkpoint")


def is_verified(folder: Path, layout: Layout) -> bool | None:
    """None where the system does not let it be known."""
    try:
        said = json.loads(content_of(folder / VERIFIED, VERIFIED_BYTES_MAX))
    except (FileNotFoundError, ValueError, RecursionError):
        return False
    except OSError:
        return None
    return isinstance(said, dict) and said.get("save_id") == layout.save_id
