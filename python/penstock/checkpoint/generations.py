# SPDX-License-Identifier: Apache-2.0

"""Checkpoints of one folder and of many: publishing, the newest, checking, removing.

A checkpoint is there from the moment at which checkpoint.json has its name. Data files are flushed before, and have
names that no other save has: so what was there before stays whole until then, and a crash leaves one or the other.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from penstock.checkpoint.layout import NAME, NBYTES_MAX, PIECE_BYTES, CheckpointError, Extent, Layout, decode, encode
from penstock.sessions import Session, default_session
from penstock.weights.headers import INDEX

VERIFIED = "verified.json"
VERIFIED_BYTES_MAX = 1000
READERS = 4
REMOVERS = 8
DATA_FILE = re.compile(r"(0[0-9]{19})-[0-9a-f]{8}-[0-9]+-[0-9]+\.data")  # As saves name them, until the year 2286.
SAID_ID = re.compile(rb'"save_id":"(0[0-9]{19})-')
SAID_WITHIN = 200  # Bytes of checkpoint.json: it is the first thing there.
ABANDONED_S = 3600  # Since a data file was last written that no checkpoint names: its save has ended badly.


def new_save_id(folder: Path) -> str:
    """Later ones sort behind earlier ones, and no two are the same; also where a clock was put back since the saves
    that `folder` and its neighbours have, by the names of their files and by what they say."""
    known = [time.time_ns()]
    for place in (folder.parent / name for name in names_in(folder.parent)):
        known += [int(found[1]) + 1 for name in names_in(place) if (found := DATA_FILE.fullmatch(name))]
        with contextlib.suppress(OSError, CheckpointError):  # Names of safetensors tell nothing.
            known += [int(found) + 1 for found in SAID_ID.findall(_content_of(place / NAME, SAID_WITHIN))]
    return f"{max(known):020}-{secrets.token_hex(4)}"


def names_in(folder: Path) -> list[str]:
    """Nothing of what is no folder, or none any more: others remove checkpoints meanwhile."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def make_folder(folder: Path, *, durable: bool = True) -> None:
    """durable: it is there after a crash, too. Who made it before may not have flushed its name."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in (missing or [folder]) if durable else ():
        _flush(each.parent)


def is_regular(path: Path) -> bool:
    """A pipe would have whoever opens it wait. Raises FileNotFoundError."""
    return stat.S_ISREG(path.stat().st_mode)


def _content_of(path: Path, at_most: int) -> bytes:
    if not is_regular(path):
        raise CheckpointError(f"{path}: this is no regular file")
    with open(path, "rb") as opened:
        return opened.read(at_most)


def read_layout(folder: Path) -> Layout:
    """Raises CheckpointError, and FileNotFoundError where there is no checkpoint."""
    path = folder / NAME
    try:
        text = _content_of(path, NBYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(errno.ENOENT, "no checkpoint is there: no save to this folder has ended, or "
                                "another folder is meant", str(path)) from None
    if len(text) > NBYTES_MAX:
        raise CheckpointError(f"{path}: over {NBYTES_MAX} bytes are not believed")
    try:
        return decode(text)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None


@contextlib.contextmanager
def of_one_save(folder: Path, layout: Layout) -> Iterator[None]:
    """Around what reads the data. Raises CheckpointError where another save took the place meanwhile: safetensors have
    the same names in both."""
    def check() -> None:
        if layout.headers and read_layout(folder).save_id != layout.save_id:
            raise CheckpointError(f"{folder}: it was saved anew while it was read: read it again")

    try:
        yield
    except (ValueError, OSError):  # As a checksum that is of the other.
        check()
        raise
    check()


def publish(folder: Path, layout: Layout, session: Session | None = None, *, durable: bool = True) -> None:
    """From here on it is the folder's checkpoint. The data files of the one before, and what saves that never ended
    have left there, are removed behind the caller's back; not those of a save that goes on at the same time."""
    earlier = _files_of_checkpoint(folder)
    try:
        _give_name(folder, layout, session, durable)
    except BaseException:
        _remove(folder / name for name in layout.files)
        raise
    _remove_behind([folder / name for name in (earlier | _old_files(folder)) - set(layout.files)])


def remove_abandoned(folder: Path) -> None:
    """Data files that no checkpoint names, of saves that ended badly."""
    old = _old_files(folder)
    named = _files_of_checkpoint(folder) if old else set()
    _remove(folder / name for name in old - named)


def _old_files(folder: Path) -> set[str]:
    """Of saves that have ended, whether well or not. What others call .data is theirs."""
    return {name for name in names_in(folder) if DATA_FILE.fullmatch(name) and _age(folder / name) > ABANDONED_S}


def _remove_left(place: Path) -> None:
    """And the folder, where nothing else is in it."""
    if any(map(DATA_FILE.fullmatch, names_in(place))):
        remove_abandoned(place)
        with contextlib.suppress(OSError):
            place.rmdir()


def _give_name(folder: Path, layout: Layout, session: Session | None, durable: bool) -> None:
    gone = [name for name, size in layout.files.items() if not _has_size(folder / name, size)]
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


def _age(path: Path) -> float:
    """Seconds since it was written; of what is gone none."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0


def _files_of_checkpoint(folder: Path) -> set[str]:
    try:
        return _names_of(read_layout(folder))
    except (OSError, CheckpointError):
        return set()


def _names_of(layout: Layout) -> set[str]:
    """Of files that are there for this checkpoint alone, but for checkpoint.json."""
    return {*layout.files, *([INDEX] if layout.headers else [])}


def _remove(paths: Iterable[Path]) -> None:
    """As many as can be: what is left costs room alone. By threads, for to free a file's pages takes its time."""
    def unlink(path: Path) -> None:
        with contextlib.suppress(OSError):
            path.unlink()

    with ThreadPoolExecutor(REMOVERS, "penstock-remove") as threads:
        list(threads.map(unlink, paths))


_removals: list[threading.Thread] = []


def _remove_behind(paths: list[Path]) -> None:
    """Where freed blocks are discarded at once, to remove gigabytes takes seconds. A process waits for it at its
    end."""
    if paths:
        thread = threading.Thread(target=_remove, args=(paths,), name="penstock-remove")
        _removals[:] = [each for each in _removals if each.is_alive()] + [thread]
        thread.start()


def wait_for_removals() -> None:
    """Until what this process removes is gone, and its room is free."""
    for thread in list(_removals):
        with contextlib.suppress(RuntimeError):  # One that another thread has not started yet.
            thread.join()


@dataclass(frozen=True)
class Verified:
    """What was looked at: tensors and objects, and their bytes."""

    names: int
    nbytes: int


def verify(folder: str | os.PathLike[str], *, session: Session | None = None) -> Verified:
    """Reads a checkpoint whole and compares every checksum; then notes that it did, for `retain`.

    Raises CheckpointError that names the file, the tensor and the piece of 16 MiB in which the first difference is.
    """
    place = Path(folder)
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
        said = json.loads(_content_of(folder / VERIFIED, VERIFIED_BYTES_MAX))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.get("save_id") == layout.save_id


def _known(root: Path) -> list[tuple[str, Path, Layout]]:
    """The checkpoints in a folder of them, oldest first. What is none is left out, and so is one that is damaged."""
    found = []
    for place in root.iterdir() if root.is_dir() else ():
        try:
            layout = read_layout(place)
        except (OSError, CheckpointError):
            continue
        if all(_has_size(place / name, size) for name, size in layout.files.items()):
            found.append((layout.save_id, place, layout))
    return sorted(found, key=lambda each: (each[0], str(each[1])))


def _has_size(path: Path, size: int) -> bool:
    try:
        return is_regular(path) and path.stat().st_size >= size
    except OSError:
        return False


def latest(root: str | os.PathLike[str]) -> Path | None:
    """The newest whole checkpoint among the folders in `root`, by when its save began; None where there is none.

    Checksums of the data are not looked at: `verify` does that.
    """
    found = whole(root)
    return found[-1] if found else None


def whole(root: str | os.PathLike[str]) -> list[Path]:
    """All that `latest` looks at, the newest last."""
    return [place for _, place, _ in _known(Path(root))]


def retain(root: str | os.PathLike[str], keep: int) -> list[Path]:
    """Removes all but the newest `keep` checkpoints, and never the newest that was verified. Those that are gone.

    With them goes what saves that ended badly an hour ago or more have left. Links, as one that is called latest, do
    not count, and what they lead to stays."""
    if keep < 1:
        raise ValueError(f"keep is {keep}: expected 1 at least")
    for place in (Path(root) / name for name in names_in(Path(root))):
        if not place.is_symlink():
            _remove_left(place)
    found = [each for each in _known(Path(root)) if not each[1].is_symlink()]
    kept = {place for _, place, _ in found[-keep:]}
    kept |= set([place for _, place, layout in found if is_verified(place, layout)][-1:])
    gone = []
    for save_id, place, _ in found:
        with contextlib.suppress(FileNotFoundError):  # Where another process removes it at the same time.
            if place not in kept and _remove_checkpoint(place, save_id):
                gone.append(place)
    return gone


def remove(folder: str | os.PathLike[str]) -> None:
    """First it is no checkpoint any more; then its files go. What else is in the folder stays, and so does the folder
    then."""
    _remove_checkpoint(Path(folder), None)


def _remove_checkpoint(place: Path, expected: str | None) -> bool:
    """expected: the save that is meant; one that came since is left."""
    layout = read_layout(place)
    if expected is not None and layout.save_id != expected:
        return False
    (place / NAME).unlink()
    _flush(place)
    _remove([place / VERIFIED, *(place / name for name in _names_of(layout))])
    try:
        place.rmdir()
        _flush(place.parent)
    except OSError:
        pass  # Others have something in it.
    return True


def _flush(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
