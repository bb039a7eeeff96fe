# SPDX-License-Identifier: Apache-2.0

"""Reads a checkpoint's description from an untrusted folder."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from penstock import _native
from penstock.checkpoint.layout import (
    NAME, NBYTES_MAX, SUMMARY, TAIL, CheckpointError, Layout, check_sum, checksum, decode, head_of, summary_of,
)
from penstock.regular import UnfitFileError, open_regular

ASIDE = re.compile(r"\.[0-9a-f]{16}\.[0-9a-f]{8}\.removed")
BEGIN_BYTES = 1 << 20
SUMMARY_BYTES = 8 << 20  # Enough for the names and sizes of a hundred thousand files.


def names_in(folder: Path) -> list[str]:
    """Empty if it is not a folder, or gone: others remove checkpoints meanwhile. Raises OSError where the system does
    not let it be read, which says nothing of what is in it."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def names_if_readable(folder: Path) -> list[str]:
    """Empty as well where the folder cannot be read: for whoever loses nothing by what it does not see."""
    with contextlib.suppress(OSError):
        return names_in(folder)
    return []


def is_regular(path: Path) -> bool:
    """Checked first, since opening a pipe blocks. Raises FileNotFoundError."""
    return stat.S_ISREG(path.stat().st_mode)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Opens a regular file. Raises CheckpointError for anything else, and does not block on a pipe."""
    try:
        fd = open_regular(path)
    except UnfitFileError:
        raise CheckpointError(f"{path}: this is no regular file") from None
    try:
        with open(fd, "rb", buffering=0, closefd=False) as file:
            yield file
    finally:
        os.close(fd)


def content_of(path: Path, at_most: int) -> bytes:
    with opened(path) as file:
        return _read(file, at_most)


def _read(file: BinaryIO, at_most: int) -> bytes:
    """Allocates no more memory than the file has bytes."""
    wanted = min(at_most, os.fstat(file.fileno()).st_size + 1)
    pieces = []
    while wanted > 0 and (piece := file.read(wanted)):
        pieces.append(piece)
        wanted -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


@contextlib.contextmanager
def _told_with(path: Path) -> Iterator[None]:
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None


def read_description(path: Path) -> Layout:
    """Reads a file like checkpoint.json. Raises CheckpointError with its name, and OSError. If the file does not begin
    like one, only its beginning is read."""
    with opened(path) as file, _told_with(path):
        begin = _begin_of(file)
        return decode(begin + _read(file, NBYTES_MAX))


def _begin_of(file: BinaryIO) -> bytes:
    size = os.fstat(file.fileno()).st_size
    begin = _read(file, BEGIN_BYTES)
    head_of(begin)
    if size > NBYTES_MAX:
        raise CheckpointError(f"it has {size} bytes, and over {NBYTES_MAX} are not accepted")
    return begin


def read_summary(folder: Path) -> Layout:
    """Reads only the save id and file sizes of a layout, after checking the checksum, in little memory whatever the
    file contains."""
    path = folder / NAME
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), opened(path) as file, _told_with(path):
        text = _begin_of(file)
        if SUMMARY.match(text, head_of(text).end()) is None:
            text += _read(file, SUMMARY_BYTES - len(text))
        said = SUMMARY.match(text, head_of(text).end())
        if said is not None:
            _check_rest(file, text)
            return summary_of(said)
    return read_layout(folder)


def _check_rest(file: BinaryIO, text: bytes) -> None:
    """Compares the checksum of the whole file, which begins with `text`, piece by piece."""
    head, sums, last = head_of(text), [], text
    last = last[head.end():]
    while piece := file.read(BEGIN_BYTES):
        last, done = last[-len(TAIL):] + piece, last[:-len(TAIL)]
        sums.append((checksum(done), len(done)))
    sums.append((checksum(last[:-len(TAIL)]), len(last) - len(TAIL)))
    check_sum(head, _native.crc32c_of_all(sums), last.endswith(TAIL))


def folder_of(said: str | os.PathLike[str]) -> Path:
    """Raises FileNotFoundError for None, which `latest` returns if there is no checkpoint."""
    if said is None:
        raise FileNotFoundError(errno.ENOENT, "no checkpoint is named: latest() gives None where it finds none. Ask "
                                "`if newest is not None` before you load it, and begin from the start where it is None")
    return Path(said)


def read_layout(folder: Path) -> Layout:
    """Raises CheckpointError, and FileNotFoundError if there is no checkpoint."""
    path = folder / NAME
    for _ in range(2):  # Twice, since checkpoint.json may be put back in between.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return read_description(path)
        for aside in (folder / name for name in names_in(folder) if ASIDE.fullmatch(name)):
            with contextlib.suppress(FileNotFoundError, CheckpointError):
                if not is_meant(aside.name, layout := read_description(aside)):
                    return layout
    raise FileNotFoundError(errno.ENOENT, "there is no checkpoint: no save to this folder has ended, or the name is "
                            "wrong", str(path))


def name_aside(save_id: str) -> str:
    """The name to which a removal renames checkpoint.json. The removal then reads it: if it is another save's, it is
    still the folder's checkpoint, and is put back."""
    return f".{_digest(save_id)}.{secrets.token_hex(4)}.removed"


def is_meant(name: str, layout: Layout) -> bool:
    """Whether the file set aside under that name is the one to remove."""
    return name.startswith(f".{_digest(layout.save_id)}.")


def _digest(save_id: str) -> str:
    """A save's id may be any text."""
    return hashlib.sha256(save_id.encode(errors="replace")).hexdigest()[:16]


@contextlib.contextmanager
def of_one_save(folder: Path, layout: Layout) -> Iterator[None]:
    """A context for reading the data. Raises CheckpointError if another save replaced the checkpoint meanwhile:
    safetensors files have the same names in both."""
    def check() -> None:
        if layout.headers and read_layout(folder).save_id != layout.save_id:
            raise CheckpointError(f"{folder}: it was saved anew while it was read: read it again")

    try:
        yield
    except (ValueError, OSError):  # For instance a checksum of the other save.
        check()
        raise
    check()


def has_size(path: Path, size: int) -> bool:
    """Raises OSError where it cannot be told."""
    try:
        return is_regular(path) and path.stat().st_size >= size
    except (FileNotFoundError, NotADirectoryError):
        return False


def is_whole(folder: Path, layout: Layout) -> bool:
    return all(has_size(folder / name, size) for name, size in layout.files.items())
