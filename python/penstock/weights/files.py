# SPDX-License-Identifier: Apache-2.0

"""Opens and identifies files of weights."""

from __future__ import annotations

import os
import shutil
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from penstock.regular import open_regular
from penstock.weights.tensors import WeightsError, named

COPY_BYTES = 16 << 20


def identity_of(fd: int) -> tuple[int, int, int, int]:
    """Identifies a file and its state."""
    facts = os.fstat(fd)
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


@contextmanager
def opened_file(path: Path) -> Iterator[int]:
    """Opens a regular file. Refuses by name files that would block the reader or have no end."""
    fd = open_regular(path)
    try:
        yield fd
    finally:
        os.close(fd)


class Held:
    """A file that stays open until nobody has this any more: it is read also when its name is gone."""

    def __init__(self, path: Path, identity: tuple[int, int, int, int]) -> None:
        """Raises WeightsError if it is not the file that it was."""
        self.fd, self._path, self._identity = open_regular(path), path, identity
        weakref.finalize(self, os.close, self.fd)
        self.check()

    def check(self) -> None:
        """Raises WeightsError if it was changed."""
        if identity_of(self.fd) != self._identity:
            raise WeightsError(f"{self._path}: it was cut, changed or replaced after its header was read: open it anew")


def mode_over(filename: str | os.PathLike[str]) -> int:
    """The mode of a file that is written in place of another: that one's, so that what was private stays so."""
    try:
        mode = os.stat(filename).st_mode
    except OSError:
        return 0o666
    return stat.S_IMODE(mode) & 0o777 | 0o600 if stat.S_ISREG(mode) else 0o666  # The owner writes and reads it.


@contextmanager
def copied(source: BinaryIO) -> Iterator[Path]:
    """Copies the rest of a file object to an unnamed file."""
    if not callable(getattr(source, "read", None)):
        raise WeightsError(f"a {type(source).__name__} is no file: expected its name, or a file object")
    fd = os.memfd_create("penstock")
    try:
        with named("a file object"), open(fd, "wb", closefd=False) as copy:
            shutil.copyfileobj(source, copy, COPY_BYTES)
        yield Path(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
