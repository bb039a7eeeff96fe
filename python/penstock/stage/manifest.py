# SPDX-License-Identifier: Apache-2.0

"""What a folder's staged files are: penstock-stage.json, published as a whole, and the journal of a run until then.

The journal is lines of JSON that are only added to. A part is written down when it is on the drive, so that a line that
was lost costs a fetch and a line that is there is true. What a torn line ends with is cut off.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from penstock.sessions import Session

MANIFEST = "penstock-stage.json"
STATE = ".penstock-stage"   # A folder with the journal and unfinished files, while a run is unfinished.
JOURNAL = "journal"
FORMAT = 1
PART_BYTES_MAX = 1 << 30


class StageError(OSError):
    """What was asked for cannot be staged, or what was staged is damaged. The text names step, cause and remedy."""

    def __str__(self) -> str:  # Without its number.
        return str(self.args[-1])


class NotApplicableError(StageError):
    """It makes no sense on this machine."""


@dataclass
class Entry:
    """A staged file. version: what the source called this state of it; part i has checksum sums[i]."""

    source: str
    size: int
    version: str | None
    part_bytes: int
    sums: list[int]
    mtime_ns: int = 0  # Of the staged file: another one tells that somebody wrote to it.


@dataclass
class Unfinished:
    """A file under its temporary name, and the parts of it that are on the drive."""

    temporary: str
    source: str
    size: int
    version: str | None
    part_bytes: int
    sums: dict[int, int] = field(default_factory=dict)
    mtime_ns: int | None = None  # Where it is whole, checked and flushed: it has its name, or only lacks that.


def read_manifest(root: int, folder: Path) -> dict[str, Entry]:
    """Of nothing, where there is none. Raises StageError for what is no manifest."""
    try:
        with open(os.open(MANIFEST, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=root)) as opened:
            told = json.load(opened)
        if told["format"] != FORMAT:
            raise ValueError(f"format {told['format']!r}, and {FORMAT} is known")
        return {name: _entry(each) for name, each in told["files"].items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StageError(f"read {folder / MANIFEST}: {error.strerror}: remove what has that name, and stage again") \
            from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StageError(f"read {folder / MANIFEST}: it is no manifest of stage ({error}): remove it, and stage again, "
                         "which fetches everything anew") from None


def _entry(told: dict[str, Any]) -> Entry:
    entry = Entry(**told)
    numbers = [entry.size, entry.part_bytes, entry.mtime_ns, *entry.sums]
    if (not all(type(each) is int and each >= 0 for each in numbers) or not 0 < entry.part_bytes <= PART_BYTES_MAX
            or not isinstance(entry.source, str) or not isinstance(entry.version, str | None)
            or len(entry.sums) != -(-entry.size // entry.part_bytes)):
        raise ValueError("a file's description makes no sense")
    return entry


def publish_manifest(session: Session, folder: Path, entries: dict[str, Entry]) -> None:
    text = json.dumps({"format": FORMAT, "files": {name: asdict(entries[name]) for name in sorted(entries)}}, indent=1)
    with session.create(folder / MANIFEST, replace=True, mode=0o644) as file:
        file.write(text.encode())


def open_state(root: int, folder: Path) -> int | None:
    """The folder of what is unfinished, None where there is none."""
    try:
        return os.open(STATE, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StageError(f"open {folder / STATE}: {error.strerror}: that is where stage keeps what is unfinished: "
                         "remove what has that name") from None


def recall(state: int) -> tuple[dict[str, Unfinished], int]:
    """What the journal says, and how many bytes of it do."""
    files: dict[str, Unfinished] = {}
    good = 0
    with contextlib.suppress(FileNotFoundError), open(
            os.open(JOURNAL, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=state), "rb") as opened:
        for line in opened:
            try:
                if not line.endswith(b"\n"):
                    break
                _take(files, json.loads(line))
            except (ValueError, KeyError, TypeError):
                break
            good += len(line)
    return files, good


def _take(files: dict[str, Unfinished], told: dict[str, Any]) -> None:
    if "begin" in told:
        name = told.pop("begin")
        files[name] = Unfinished(**told)
    elif "part" in told:
        files[told["of"]].sums[int(told["part"])] = int(told["sum"])
    elif "whole" in told:
        files[told["whole"]].mtime_ns = int(told["mtime_ns"])
    else:
        del files[told["forget"]]


class Journal:
    """Of one folder, which no other run may stage to meanwhile. Threads may add to it at the same time, of
    different files."""

    def __init__(self, root: int, folder: Path) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(STATE, 0o700, dir_fd=root)
        busy = StageError(f"stage to {folder}: another run stages to it just now: wait for its end")
        state = open_state(root, folder)
        if state is None:
            raise busy
        try:
            fcntl.flock(state, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._fd = os.open(JOURNAL, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600,
                               dir_fd=state)
        except (BlockingIOError, FileNotFoundError):
            os.close(state)
            raise busy from None
        self.state, self._root = state, root
        self.files, good = recall(state)
        os.ftruncate(self._fd, good)
        self._sweep()
        os.fsync(root)

    def _sweep(self) -> None:
        """Removes what no line names: of a run that was killed before it had written down what it began."""
        known = {each.temporary for each in self.files.values()} | {JOURNAL}
        for name in set(os.listdir(self.state)) - known:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self.state)

    def begin(self, name: str, unfinished: Unfinished) -> None:
        self.files[name] = unfinished
        self._add(begin=name, temporary=unfinished.temporary, source=unfinished.source, size=unfinished.size,
                  version=unfinished.version, part_bytes=unfinished.part_bytes)

    def note_part(self, name: str, part: int, checksum: int) -> None:
        """To be called when it is on the drive. Of a file of several parts a loss of power does not cost those."""
        found = self.files[name]
        found.sums[part] = checksum
        self._add(of=name, part=part, sum=checksum)
        if found.size > found.part_bytes:
            os.fdatasync(self._fd)
            if len(found.sums) == 1:
                os.fsync(self.state)

    def note_whole(self, name: str, mtime_ns: int) -> None:
        self.files[name].mtime_ns = mtime_ns
        self._add(whole=name, mtime_ns=mtime_ns)

    def forget(self, name: str) -> None:
        """And removes the unfinished file."""
        if (gone := self.files.pop(name, None)) is not None:
            self._add(forget=name)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(gone.temporary, dir_fd=self.state)

    def _add(self, **told: Any) -> None:
        line = json.dumps(told).encode() + b"\n"
        if os.write(self._fd, line) != len(line):
            raise StageError("write the journal: the drive is full: free some room, and stage again, which goes on")

    def remove(self) -> None:
        """After the manifest has everything."""
        for name in os.listdir(self.state):
            os.unlink(name, dir_fd=self.state)
        os.rmdir(STATE, dir_fd=self._root)

    def close(self) -> None:
        os.close(self._fd)
        os.close(self.state)


def new_temporary() -> str:
    return f"{secrets.token_hex(16)}.part"


def parts_of(size: int, part_bytes: int) -> Iterator[tuple[int, int]]:
    """(where, how many bytes) of each part."""
    for begin in range(0, size, part_bytes):
        yield begin, min(part_bytes, size - begin)
