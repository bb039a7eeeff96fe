# SPDX-License-Identifier: Apache-2.0

"""What has changed since the save before, and hard links to the data files that have the rest.

A piece is taken for unchanged if its CRC32C and its hash of 64 bits are those that the save before wrote down. Files of
which little is used are not linked, and their pieces are written again: so a checkpoint takes at most twice its bytes,
in a few files, however many saves came before.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from penstock import _native
from penstock.checkpoint.hostcopies import by_device, stream_of
from penstock.checkpoint.ids import whole_beside
from penstock.checkpoint.layout import CheckpointError, Extent
from penstock.checkpoint.leftovers import DATA_FILE
from penstock.checkpoint.pieces import Described, Piece, cut_sources_of
from penstock.checkpoint.reading import read_layout
from penstock.checkpoint.starting import Start, is_known
from penstock.checkpoint.storing import aligned
from penstock.sessions import Session, default_session
from penstock.threads import for_each
from penstock.weights.tensors import collecting_paused

LINKS_MAX = 128
THREADS_MAX = 16
PLACES_MAX = 16  # Checkpoints to look for one of this process.

Fingerprint = tuple[int, int]  # CRC32C, and the hash of 64 bits: src/checksum/hash64.h.


@dataclass(frozen=True)
class Reusable:
    """A data file of the save before, and where pieces that have not changed lie in it."""

    path: Path
    facts: os.stat_result
    extents: Mapping[Piece, Extent]

    @cached_property
    def live_bytes(self) -> int:
        return sum(aligned(extent.nbytes) for extent in self.extents.values())

    @cached_property
    def dead_bytes(self) -> int:
        return max(0, self.facts.st_size - self.live_bytes)


@collecting_paused()  # A description of thousands of tensors is made and forgotten.
def begin_with_links(start: Start, described: Described, tensors: Mapping[str, Any],
                     session: Session | None) -> dict[Piece, Any]:
    """Begins a save, of which it links what the newest whole checkpoint beside it has. Returns the bytes of the pieces
    that are to be written. Nothing may change the tensors meanwhile."""
    found = cut_sources_of(described, tensors)
    prints = fingerprints(found, session)
    files, why_not = _unchanged(start.folder, prints)
    chosen = _chosen(files, sum(aligned(piece.nbytes) for piece in found))
    if why_not is None and len(chosen) < len(files):
        why_not = "files of which little is used are not linked"
    known = {piece for file in chosen for piece in file.extents}
    start.begin([piece for piece in found if piece not in known])
    start.hashes, start.why_not = {piece: hash64 for piece, (_, hash64) in prints.items()}, why_not
    start.sums = {piece: [crc][:piece.nbytes] for piece, (crc, _) in prints.items()}
    for file in chosen:
        start.link(file.path, file.facts, file.extents)
    left = {piece: content for piece, content in found.items() if piece not in start.extents}
    start.check_room(left)
    return left


def fingerprints(found: Mapping[Piece, Any], session: Session | None) -> dict[Piece, Fingerprint]:
    """A GPU makes those of its memory, behind what its current stream was given before."""
    made: dict[Piece, Fingerprint] = {}

    def make(piece: Piece) -> None:
        made[piece] = _native.fingerprint(found[piece])

    devices = by_device(found)
    on_host = devices.pop(None, [])
    begun = [(pieces, (session or default_session()).fingerprints_begin((found[piece] for piece in pieces),
                                                                        stream=stream_of(device)))
             for device, pieces in devices.items()]
    for_each(make, on_host, min(len(os.sched_getaffinity(0)), THREADS_MAX))
    for pieces, pending in begun:
        made.update(zip(pieces, pending.result(), strict=True))
    return made


def _unchanged(folder: Path, prints: Mapping[Piece, Fingerprint]) -> tuple[list[Reusable], str | None]:
    """The files that have pieces with these fingerprints; why there are none, or fewer."""
    place = _save_before(folder)
    if place is None:
        return [], "there is no checkpoint beside it"
    try:
        layout = read_layout(place)
    except (OSError, CheckpointError) as error:  # Somebody removes it just now.
        return [], str(error)
    there = {(name, chunk.at, chunk.shape): chunk.extent for name, tensor in layout.tensors.items()
             for chunk in tensor.chunks if chunk.extent.hash64 is not None}
    if not there:
        return [], f"{place} was saved without changed_only"
    files: dict[str, dict[Piece, Extent]] = {}
    for piece, (crc, hash64) in prints.items():
        extent = there.get((piece.name, piece.at, piece.shape))
        if extent is not None and extent.nbytes == piece.nbytes > 0 and extent.crc32c == (crc,) \
                and extent.hash64 == hash64 and DATA_FILE.fullmatch(extent.file):
            files.setdefault(extent.file, {})[piece] = extent
    found, why_not = [], None
    for path, extents in ((place / name, extents) for name, extents in files.items()):
        facts = _facts_of(path)
        if isinstance(facts, str):
            why_not = facts
        else:
            found.append(Reusable(path, facts, extents))
    return found, why_not


def _facts_of(path: Path) -> os.stat_result | str:
    """Or why the file is not to be linked."""
    try:
        facts = os.lstat(path)
    except OSError as error:  # Somebody removes it just now.
        return f"{path}: {error.strerror}"
    return facts if is_known(facts) else (f"{path}: no save of this process wrote it, so that its bytes may have come "
                                          "to harm")


def _save_before(folder: Path) -> Path | None:
    """The newest with files of this process: other jobs may save beside it. If there is none, the newest of all."""
    newest = None
    for place, layout in itertools.islice(whole_beside(folder), PLACES_MAX):
        newest = newest or place
        if not all(isinstance(_facts_of(place / name), str) for name in layout.files):
            return place
    return newest


def _chosen(files: Sequence[Reusable], dead_bytes_max: int) -> list[Reusable]:
    """The fullest, as long as what else is in them is not over `dead_bytes_max`."""
    most = sorted(files, key=lambda file: -file.live_bytes)[:LINKS_MAX]
    fullest = sorted(most, key=lambda file: file.dead_bytes / file.live_bytes)
    dead_bytes = itertools.accumulate(file.dead_bytes for file in fullest)
    return [file for file, dead in zip(fullest, dead_bytes, strict=True) if dead <= dead_bytes_max]
