# SPDX-License-Identifier: Apache-2.0

"""Checkpoints of one folder and of many: publishing, the newest, checking, removing.

A checkpoint is there from the moment at which checkpoint.json has its name. Data files are flushed before, and have
names that no other save has: so what was there before stays whole until then, and a crash leaves one or the other.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import re
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from penstock.checkpoint.layout import NAME, PIECE_BYTES, CheckpointError, Extent, Layout, encode
from penstock.checkpoint.leases import ID, Lease, room_for_leases, take
from penstock.checkpoint.leftovers import (
    DATA_FILE, VERIFIED, VERIFIED_BYTES_MAX, files_of_checkpoint, finish_removal, give_up, put_back, remove_behind,
    sweep_all, sweep_empty, wait_for_removals,
)
from penstock.checkpoint.reading import (
    content_of, folder_of, has_size, is_meant, is_regular, name_aside, names_in, of_one_save, read_description,
    read_layout, read_summary,
)
from penstock.folders import flush_folder, make_folder
from penstock.sessions import Session, default_session

READERS = 4
SAID_ID = re.compile(rb'"save_id":"([0-9]{20})-[0-9a-f]{8}"')
SAID_WITHIN = 200  # Bytes of checkpoint.json: it is the first thing there.
CLOCK_MAX = (1 << 63) - 1  # Nanoseconds that the system's clock can tell.
TRIES = 10

log = logging.getLogger("penstock.checkpoint")


def new_save_id(folder: Path) -> str:
    """Later ones sort behind earlier ones, and no two are the same; also where a clock was put back since the whole
    checkpoints that `folder` and its neighbours have. No other name there moves it."""
    number = time.time_ns()
    for place in (folder.parent / name for name in names_in(folder.parent)):
        with contextlib.suppress(OSError, CheckpointError):
            said = SAID_ID.search(content_of(place / NAME, SAID_WITHIN))
            if said is not None and number <= int(said[1]) <= CLOCK_MAX and is_whole(place, read_summary(place)):
                number = min(int(said[1]) + 1, CLOCK_MAX)
    return f"{number:020}-{secrets.token_hex(4)}"


def new_lease(folder: Path, *, beside: Path | None = None, durable: bool = True) -> Lease:
    """Of a new save to the folder. beside: where its files are until the end."""
    return hold(beside or folder, new_save_id(folder), durable=durable)


def hold(folder: Path, save_id: str, *, durable: bool = True) -> Lease:
    """Its lease. The folder is made again where others have removed it since, for it was empty."""
    for _ in range(TRIES):
        with contextlib.suppress(FileNotFoundError):
            return take(folder, save_id)
        make_folder(folder, durable=durable)
    return take(folder, save_id)


def is_whole(folder: Path, layout: Layout) -> bool:
    return all(has_size(folder / name, size) for name, size in layout.files.items())


def publish(folder: Path, layout: Layout, lease: Lease, session: Session | None = None, *,
            durable: bool = True) -> None:
    """From here on it is the folder's checkpoint. The data files of the one before are removed behind the caller's
    back, and the lease ends then, or here, where the save fails."""
    try:
        others = _other_ids(layout, lease)
        with _all_leases(folder, others) as leases:
            earlier = files_of_checkpoint(folder) - set(layout.files)
            lease.note(earlier)
            give_name(folder, layout, session, durable)
            for each in leases:
                each.end()
        for save_id in others[len(leases):]:
            with contextlib.suppress(OSError):  # Whoever sweeps takes what is left of it.
                take(folder, save_id).end()
        remove_behind([folder / name for name in earlier], lease)
    except BaseException:
        give_up(folder, layout.files, lease)
        raise


def _other_ids(layout: Layout, own: Lease) -> list[str]:
    """Of the saves of all ranks but this one."""
    found = {match[1] for name in layout.files if (match := DATA_FILE.fullmatch(name))}
    return sorted(found - {own.save_id})


@contextlib.contextmanager
def _all_leases(folder: Path, save_ids: list[str]) -> Iterator[list[Lease]]:
    """Those of ranks whose processes may die from now on: the first of them, as many as there is room for."""
    with contextlib.ExitStack() as held:
        found = []
        for save_id in save_ids[:room_for_leases()]:
            found.append(take(folder, save_id))
            held.callback(found[-1].close)
        yield found


def give_name(folder: Path, layout: Layout, session: Session | None, durable: bool) -> None:
    gone = [name for name, size in layout.files.items() if not has_size(folder / name, size)]
    if gone:
        raise CheckpointError(f"{folder / gone[0]}: it was removed or cut before the save ended: save again")
    if durable:
        with (session or default_session()).create(folder / NAME, replace=True) as file:
            file.write(encode(layout))
    else:
        temporary = folder / f".{layout.save_id}"
        try:
            temporary.write_bytes(encode(layout))
            temporary.rename(folder / NAME)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@dataclass(frozen=True)
class Verified:
    """What was looked at: tensors and objects, and their bytes."""

    names: int
    nbytes: int


def verify(folder: str | os.PathLike[str], *, session: Session | None = None) -> Verified:
    """Reads a checkpoint whole and compares every checksum; then notes that it did, for `retain`.

    Raises CheckpointError that names the file, the tensor and the piece of 16 MiB in which the first difference is.
    """
    place = folder_of(folder)
    layout = read_layout(place)
    extents = list(layout.extents())
    with of_one_save(place, layout), ThreadPoolExecutor(READERS, "penstock-verify") as threads:
        checks = [threads.submit(_check, session or default_session(), place, name, extent)
                  for name, extent in sorted(extents, key=lambda each: (each[1].file, each[1].offset))]
        try:
            for done in checks:
                done.result()
        except BaseException:  # What was found is told before all else is read.
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    try:
        with (session or default_session()).create(place / VERIFIED, replace=True) as file:
            file.write(json.dumps({"save_id": layout.save_id}).encode())
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, f"every checksum is right, but that could not be noted for retain: {error}",
                      str(place / VERIFIED)) from None
    return Verified(len(layout.tensors) + len(layout.objects), layout.nbytes)


def _check(session: Session, folder: Path, name: str, extent: Extent) -> None:
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


def check_sums(folder: Path, name: str, extent: Extent, at: int, sums: list[int]) -> None:
    """Compares those of what lies `at` bytes, a multiple of 16 MiB, behind an extent's begin."""
    first = at // PIECE_BYTES
    for i, found in enumerate(sums):
        if found != extent.crc32c[first + i]:
            begin = extent.offset + (first + i) * PIECE_BYTES
            end = min(begin + PIECE_BYTES, extent.offset + extent.nbytes)
            raise CheckpointError(f"{folder / extent.file}: the checksum of {name!r} is wrong between bytes {begin} "
                                  f"and {end}: expected {extent.crc32c[first + i]:08x}, found {found:08x}. Load an "
                                  "older checkpoint")


def is_verified(folder: Path, layout: Layout) -> bool:
    try:
        said = json.loads(content_of(folder / VERIFIED, VERIFIED_BYTES_MAX))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.get("save_id") == layout.save_id


def _known(root: Path) -> list[tuple[Path, Layout]]:
    """The checkpoints in a folder of them, oldest first, of each the summary. What is none is left out, and so is one
    that is damaged."""
    found = []
    for place in root.iterdir() if root.is_dir() else ():
        try:
            layout = read_summary(place)
            if is_whole(place, layout):
                found.append((_order(place, layout), place, layout))
        except CheckpointError as error:
            log.warning("passed over: %s", str(error))  # The error holds what was read.
        except OSError:
            continue
    return [each[1:] for each in sorted(found, key=lambda each: (each[0], str(each[1])))]


def _order(place: Path, layout: Layout) -> tuple[int, int, str]:
    """By its id; an id that no clock can have made says nothing, and then the file's time does."""
    number = int(layout.save_id[:20]) if re.fullmatch(ID, layout.save_id) else CLOCK_MAX + 1
    if number < CLOCK_MAX:
        return number, 0, layout.save_id
    written = (place / NAME).stat().st_mtime_ns
    return (number, written, "") if number == CLOCK_MAX else (written, 0, layout.save_id)


def latest(root: str | os.PathLike[str]) -> Path | None:
    """The newest whole checkpoint among the folders in `root`, by when its save began; None where there is none.

    Checksums of the data are not looked at: `verify` does that.
    """
    for place in reversed(whole(root)):
        if is_readable(place):
            return place
    return None


def whole(root: str | os.PathLike[str]) -> list[Path]:
    """All that `latest` looks at, the newest last."""
    return [place for place, _ in _known(Path(root))]


def is_readable(place: Path) -> bool:
    """Whether all that its description says makes sense. That is not asked of each: it takes memory."""
    try:
        read_layout(place)
        return True
    except CheckpointError as error:
        log.warning("passed over: %s", str(error))  # The error holds what was read.
    except OSError:
        pass  # Others remove it at the same time.
    return False


def retain(root: str | os.PathLike[str], keep: int) -> list[Path]:
    """Removes all but the newest `keep` checkpoints, and never the newest that was verified. Those that are gone.

    With them goes what dead saves have left. Links, as one that is called latest, do not count, and what they lead to
    stays."""
    if keep < 1:
        raise ValueError(f"keep is {keep}: expected 1 at least")
    sweep_all(Path(root))
    found = [each for each in _known(Path(root)) if not each[0].is_symlink()]
    sweep_empty(Path(root), [place for place, _ in found])
    readable = (place for place, _ in reversed(found) if is_readable(place))
    kept = set(itertools.islice(readable, keep))
    kept |= set([place for place, layout in found if is_verified(place, layout)][-1:])
    gone = []
    for place, layout in found:
        # Where another process removes it at the same time, or it is of no sense.
        with contextlib.suppress(FileNotFoundError, CheckpointError):
            if place not in kept and _remove_checkpoint(place, layout.save_id):
                gone.append(place)
    return gone


def remove(folder: str | os.PathLike[str]) -> None:
    """First it is no checkpoint any more; then its files go. What else is in the folder stays, and so does the folder
    then."""
    place = folder_of(folder)
    while not _remove_checkpoint(place, read_layout(place).save_id):
        pass  # Another save has ended meanwhile.


def _remove_checkpoint(place: Path, expected: str) -> bool:
    """expected: the save that is meant; one that comes meanwhile is left, or put back."""
    if read_layout(place).save_id != expected:
        return False
    aside = place / name_aside(expected)
    (place / NAME).rename(aside)
    layout = read_description(aside)
    if not is_meant(aside.name, layout):
        if not put_back(aside):
            finish_removal(aside, layout)
        return False
    finish_removal(aside, layout)
    with contextlib.suppress(OSError):  # Others have something in it.
        place.rmdir()
        flush_folder(place.parent)
    return True
