# SPDX-License-Identifier: Apache-2.0

"""The list of a folder's staged files: penstock-stage.json, published as a whole, and the journal of a run before that.

The journal is lines of JSON, only appended. A part is recorded when it is on the drive, so that a lost line costs a
fetch and an existing line is true. A torn line at the end is truncated.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from penstock.folders import flush_folder
from penstock.regular import UnfitFileError, open_regular, read_regular
from penstock.sessions import Session
from penstock.stage.failures import StageError
from penstock.stage.names import MANIFEST, STATE, fault_of, is_temporary
from penstock.stage.urls import origin_of

JOURNAL = "journal"
FORMAT = 1
PART_BYTES_MAX = 1 << 30
# Limit of a manifest: 200,000 files, or 80 TB in parts of 16 MiB. A hostile file is read into memory, where it takes at
# most 21 times as much.
BYTES_MAX = 64 << 20
JOURNAL_BYTES_MAX = 256 << 20  # The journal is read line by line.
LINE_BYTES_MAX = 1 << 20  # Limit of a journal's line: no valid line is longer.
BEGUN = {"temporary", "source", "size", "version", "part_bytes"}


@dataclass
class Entry:
    """A staged file. source: its origin. version: the source's version of it. Part i has checksum sums[i]."""

    source: str
    size: int
    version: str | None
    part_bytes: int
    sums: list[int]
    mtime_ns: int = 0  # Modification time of the staged file; a different one shows that somebody wrote to it.


@dataclass
class Unfinished:
    """A file under its temporary name, and the parts of it that are on the drive."""

    temporary: str
    source: str
    size: int
    version: str | None
    part_bytes: int
    sums: dict[int, int] = field(default_factory=dict)
    # Set when the file is whole, checked and flushed: it has its name, or only needs renaming.
    mtime_ns: int | None = None


def read_manifest(root: int, folder: Path) -> dict[str, Entry]:
    """Returns an empty manifest if there is none. Raises StageError if it is invalid, or names files outside the
    folder."""
    try:
        document = json.loads(read_regular(MANIFEST, BYTES_MAX, follow=False, dir_fd=root))
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']!r}, and {FORMAT} is known")
        return {_checked(name): _entry(each) for name, each in document["files"].items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StageError(f"read {folder / MANIFEST}: {error.strerror}: remove what has that name, and stage again") \
            from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StageError(f"read {folder / MANIFEST}: it is no manifest of stage ({error}): remove it, and stage again, "
                         "which fetches everything anew") from None


def _checked(name: object) -> str:
    """Returns the name. Raises ValueError for one that staging never uses."""
    if (why := fault_of(name)) is not None:
        raise ValueError(f"it names {name!r}, and {why}")
    return str(name)


def _entry(fields: dict[str, Any]) -> Entry:
    entry = Entry(**fields)
    numbers = [entry.size, entry.part_bytes, entry.mtime_ns, *entry.sums]
    if not all(type(each) is int and each >= 0 for each in numbers) or len(entry.sums) != _parts(entry):
        raise ValueError("a file's description makes no sense")
    entry.source = origin_of(entry.source)  # Earlier releases stored whole URLs.
    return entry


def _parts(said: Entry | Unfinished) -> int:
    """The number of parts. Raises ValueError for invalid values."""
    if (not all(type(each) is int and each >= 0 for each in (said.size, said.part_bytes))
            or not 0 < said.part_bytes <= PART_BYTES_MAX or not isinstance(said.source, str)
            or not isinstance(said.version, str | None)):
        raise ValueError("a file's description makes no sense")
    return -(-said.size // said.part_bytes)


def check_describable(folder: Path, entries: Iterable[tuple[str, str, int]]) -> None:
    """Raises StageError if the manifest would exceed the limit for reading. For each file: name, source, number of
    parts."""
    bytes_said = sum(200 + len(json.dumps(name)) + len(json.dumps(source)) + 16 * parts
                     for name, source, parts in entries)
    if bytes_said > BYTES_MAX:
        raise StageError(f"stage to {folder}: {MANIFEST} would take about {bytes_said} bytes, and {BYTES_MAX} at most "
                         "are read: nothing was fetched. Give larger parts by --part-bytes, stage archives in place of "
                         "single files, or name further folders by --to")


def publish_manifest(session: Session, folder: Path, entries: dict[str, Entry]) -> None:
    text = json.dumps({"format": FORMAT, "files": {name: asdict(entries[name]) for name in sorted(entries)}}, indent=1)
    with session.create(folder / MANIFEST, replace=True, mode=0o644) as file:
        file.write(text.encode())


def open_state(root: int, folder: Path) -> int | None:
    """Opens the folder of unfinished files; None if there is none."""
    try:
        return os.open(STATE, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StageError(f"open {folder / STATE}: {error.strerror}: that is where stage keeps what is unfinished: "
                         "remove what has that name") from None


def recall(state: int, folder: Path) -> tuple[dict[str, Unfinished], int]:
    """Returns the journal's contents, and its valid length in bytes. A torn line ends it.

    Raises StageError for a complete line that no run has written: the journal may be somebody else's.
    """
    files: dict[str, Unfinished] = {}
    good, number = 0, 0
    try:
        with open(_open_journal(state, folder, os.O_RDONLY), "rb") as opened:
            while (line := opened.readline(LINE_BYTES_MAX)).endswith(b"\n"):
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError):
                    break
                number += 1
                _take(files, record)
                good += len(line)
        if len({each.temporary for each in files.values()}) != len(files):
            raise ValueError("names one unfinished file twice")
    except FileNotFoundError:
        return {}, 0
    except (ValueError, KeyError, TypeError) as error:
        raise StageError(f"read {folder / STATE / JOURNAL}: line {number} is none that stage has written ({error}): "
                         f"check who can write to {folder}, remove {folder / STATE}, and stage again") from None
    return files, good


def _open_journal(state: int, folder: Path, flags: int) -> int:
    try:
        fd = open_regular(JOURNAL, flags, follow=False, dir_fd=state, mode=0o600, shown=folder / STATE / JOURNAL)
    except UnfitFileError as error:
        raise StageError(f"read {error}: remove {folder / STATE}, and stage again") from None
    facts = os.fstat(fd)
    if facts.st_nlink > 1 or facts.st_size > JOURNAL_BYTES_MAX:  # It will be truncated and written, so it must be ours.
        os.close(fd)
        why = "it is a file that has other names, too" if facts.st_nlink > 1 else f"it has {facts.st_size} bytes"
        raise StageError(f"read {folder / STATE / JOURNAL}: {why}, and is no journal of stage: remove "
                         f"{folder / STATE}, and stage again")
    return fd


def _take(files: dict[str, Unfinished], record: Any) -> None:
    """Raises ValueError, KeyError or TypeError for a record that the journal never contains."""
    if not isinstance(record, dict):
        raise ValueError("it is no object of JSON")
    if "begin" in record:
        name = _checked(record.pop("begin"))
        if set(record) != BEGUN or not is_temporary(record["temporary"]):
            raise ValueError(f"it names the unfinished file {record.get('temporary')!r}")
        files[name] = Unfinished(**record)
        _parts(files[name])
        files[name].source = origin_of(files[name].source)
    elif "part" in record:
        found, part, checksum = files[record["of"]], record["part"], record["sum"]
        if type(part) is not int or not 0 <= part < _parts(found) or type(checksum) is not int or checksum < 0:
            raise ValueError(f"part {part!r} with checksum {checksum!r}")
        found.sums[part] = checksum
    elif "whole" in record:
        found = files[record["whole"]]
        if type(record["mtime_ns"]) is not int or len(found.sums) != _parts(found):
            raise ValueError("a whole file of which not every part is there")
        found.mtime_ns = record["mtime_ns"]
    else:
        del files[record["forget"]]


class Journal:
    """The journal of one folder, to which no other run may stage meanwhile. Threads may append concurrently, for
    different files."""

    def __init__(self, root: int, folder: Path) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(STATE, 0o700, dir_fd=root)
        busy = StageError(f"stage to {folder}: another run stages to it just now: wait for its end")
        state = open_state(root, folder)
        if state is None:
            raise busy
        self.state, self._root, self._fd, self._folder = state, root, -1, folder
        try:
            fcntl.flock(state, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._fd = _open_journal(state, folder, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            self.files, good = recall(state, folder)
            os.ftruncate(self._fd, good)
            self._sweep()
            flush_folder(root)
        except (BlockingIOError, FileNotFoundError):
            self.close()
            raise busy from None
        except BaseException:
            self.close()
            raise

    def _sweep(self) -> None:
        """Removes files that no line names, from a run killed before it recorded them."""
        known = {each.temporary for each in self.files.values()} | {JOURNAL}
        for name in set(os.listdir(self.state)) - known:
            try:
                os.unlink(name, dir_fd=self.state)
            except OSError as error:
                raise StageError(f"remove {self._folder / STATE / name}, which stage has not made: {error.strerror}: "
                                 "remove it, and stage again") from None

    def begin(self, name: str, unfinished: Unfinished) -> None:
        self.files[name] = unfinished
        self._add(begin=name, temporary=unfinished.temporary, source=unfinished.source, size=unfinished.size,
                  version=unfinished.version, part_bytes=unfinished.part_bytes)

    def note_part(self, name: str, part: int, checksum: int) -> None:
        """Call it when the part is on the drive. The parts recorded so far survive a loss of power."""
        found = self.files[name]
        found.sums[part] = checksum
        self._add(of=name, part=part, sum=checksum)
        if found.size > found.part_bytes:
            os.fdatasync(self._fd)
            if len(found.sums) == 1:
                flush_folder(self.state)

    def note_whole(self, name: str, mtime_ns: int) -> None:
        self.files[name].mtime_ns = mtime_ns
        self._add(whole=name, mtime_ns=mtime_ns)

    def forget(self, name: str) -> None:
        """Also removes the unfinished file."""
        if (gone := self.files.pop(name, None)) is not None:
            self._add(forget=name)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(gone.temporary, dir_fd=self.state)

    def _add(self, **record: Any) -> None:
        line = json.dumps(record).encode() + b"\n"
        if os.write(self._fd, line) != len(line):
            raise StageError("write the journal: the drive is full: free some space, and stage again to resume")

    def remove(self) -> None:
        """Called once the manifest is complete."""
        for name in os.listdir(self.state):
            os.unlink(name, dir_fd=self.state)
        os.rmdir(STATE, dir_fd=self._root)

    def close(self) -> None:
        for fd in (self._fd, self.state):
            if fd >= 0:
                os.close(fd)
        self._fd = self.state = -1


def parts_of(size: int, part_bytes: int) -> Iterator[tuple[int, int]]:
    """Returns (offset, bytes) of each part."""
    for begin in range(0, size, part_bytes):
        yield begin, min(part_bytes, size - begin)
