# SPDX-License-Identifier: Apache-2.0

"""Plans a run: the files and their sources, which exist already, the folders of the others, and whether they fit."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.stage.failures import StageError, TransientError, failure_of, patiently
from penstock.stage.find import find
from penstock.stage.folders import BLOCK, Folder, near_gpu
from penstock.stage.manifest import PART_BYTES_MAX, check_describable
from penstock.stage.names import check_name, check_together, facts_of
from penstock.stage.source import Found
from penstock.stage.urls import shown_of

PART_BYTES = 64 << 20
PAGE = 4096

AnyPath = str | os.PathLike[str]


@dataclass
class Item:
    """A file, its folder, and the bytes still to fetch; None if it is there."""

    found: Found
    folder: Folder
    lacking: int | None

    @property
    def path(self) -> Path:
        return self.folder.path / self.found.name


@dataclass
class Room:
    """Needed and free bytes of one file system."""

    folder: Path
    needed: int
    free: int


@dataclass(frozen=True)
class Plan:
    """The effects of a call of `stage`."""

    files: dict[str, Path]     # All files, by their target names.
    fetched: dict[str, int]    # Bytes still to fetch, by file.
    rooms: list[Room]

    @property
    def nbytes(self) -> int:
        return sum(self.fetched.values())

    @property
    def fits(self) -> bool:
        return all(room.needed <= room.free for room in self.rooms)


def plan(sources: Iterable[AnyPath], folders: Iterable[AnyPath], *, gpu: int | None = None,
         part_bytes: int = PART_BYTES, options: dict[str, Any] | None = None) -> Plan:
    """Only plans, without changes. The arguments are those of `stage`."""
    with opened(folders, gpu, is_dry=True) as places:
        items = itemized(listed(sources, options), places, part_bytes)
        return Plan({item.found.name: item.path for item in items},
                    {item.found.name: item.lacking for item in items if item.lacking is not None},
                    rooms_of(items, part_bytes))


@contextlib.contextmanager
def opened(folders: Iterable[AnyPath], gpu: int | None, *, is_dry: bool) -> Iterator[list[Folder]]:
    paths = list(dict.fromkeys(Path(each) for each in folders))
    if not paths:
        raise StageError("stage: no folder to stage to was named: name one")
    if gpu is not None:
        paths = near_gpu(paths, gpu)
    with contextlib.ExitStack() as stack:
        places = []
        for path in paths:
            places.append(Folder(path, is_dry=is_dry))
            stack.callback(places[-1].close)
        yield places


def listed(sources: Iterable[AnyPath], options: dict[str, Any] | None = None) -> list[Found]:
    """Lists the sources' files. Raises StageError, also for refused names."""
    found: list[Found] = []
    for said in [os.fspath(each) for each in sources]:
        try:
            found += patiently(functools.partial(_found, said, options or {}))
        except (OSError, TransientError) as error:
            raise failure_of(f"list {shown_of(said)}", error, said) from None
    if not found:
        raise StageError("list the sources: there are no files: name a source that has some")
    for each in found:
        check_name(each.name, each.shown)
    check_together((each.name, each.shown) for each in found)
    return found


def _found(said: str, options: dict[str, Any]) -> list[Found]:
    return list(find(said, options))


def itemized(found: list[Found], places: list[Folder], part_bytes: int) -> list[Item]:
    """Assigns the largest files first, each to the folder that gets least; existing and begun files stay in their
    folder."""
    if part_bytes <= 0 or part_bytes % PAGE or part_bytes > PART_BYTES_MAX:
        raise StageError(f"stage: part_bytes is {part_bytes}: expected a multiple of {PAGE}, {PART_BYTES_MAX} at most")
    items, filled = [], dict.fromkeys(places, 0)
    for each in sorted(found, key=lambda one: (-one.size, one.name)):
        if each.version is None and each.size > part_bytes:
            raise StageError(f"stage {each.shown}: the server names no version of it, by ETag or date, so that parts "
                             f"may be of different ones: give --part-bytes {-(-each.size // PAGE) * PAGE}, which takes "
                             "as much memory, or fetch it by another program")
        known = (place for place in places if each.name in place.unfinished or each.name in place.entries)
        place = next(known, None) or min(places, key=filled.__getitem__)
        filled[place] += each.size
        items.append(Item(each, place, _lacking(each, place, part_bytes)))
    for place in places:
        check_describable(place.path, ((each.found.name, each.found.origin, -(-each.found.size // part_bytes))
                                       for each in items if each.folder is place))
    return items


def is_begun(found: Found, place: Folder, part_bytes: int) -> bool:
    """Whether the folder has a part of the file in the same version."""
    begun = place.unfinished.get(found.name)
    return (begun is not None and begun.mtime_ns is None and found.version is not None and
            (begun.source, begun.size, begun.version, begun.part_bytes) ==
            (found.origin, found.size, found.version, part_bytes))


def _lacking(found: Found, place: Folder, part_bytes: int) -> int | None:
    facts = facts_of(place.root, found.name) if place.root >= 0 else None
    entry = place.entries.get(found.name)
    if (facts is not None and entry is not None and found.version is not None and
            (facts.st_size, facts.st_mtime_ns) == (entry.size, entry.mtime_ns) and
            (entry.source, entry.size, entry.version) == (found.origin, found.size, found.version)):
        return None
    if not is_begun(found, place, part_bytes):
        return found.size
    return found.size - sum(min(part_bytes, found.size - part * part_bytes)
                            for part in place.unfinished[found.name].sums)


def rooms_of(items: list[Item], part_bytes: int) -> list[Room]:
    """A begun file is already allocated."""
    rooms: dict[int, Room] = {}
    for item in items:
        device, free = item.folder.free()
        room = rooms.setdefault(device, Room(item.folder.path, 0, free))
        if item.lacking is not None and not is_begun(item.found, item.folder, part_bytes):
            room.needed += -(-item.found.size // BLOCK) * BLOCK + BLOCK
    return list(rooms.values())


def check_room(rooms: list[Room]) -> None:
    for room in rooms:
        if room.needed > room.free:
            raise StageError(errno.ENOSPC, f"stage to {room.folder}: the files take {room.needed} bytes, of which "
                             f"{room.free} are free: nothing was fetched. Free some space, or name further folders on "
                             "other drives by --to")
