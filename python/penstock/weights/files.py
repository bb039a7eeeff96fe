# SPDX-License-Identifier: Apache-2.0

"""Files of weights, as they are opened and told from each other."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from penstock.regular import open_regular
from penstock.weights.tensors import WeightsError, named

COPY_BYTES = 16 << 20


def identity_of(fd: int) -> tuple[int, int, int, int]:
    """Which file it is, and whether it is as it was."""
    facts = os.fstat(fd)
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


@contextmanager
def opened_file(path: Path) -> Iterator[int]:
    """A descriptor of a regular file. What would make the reader wait, or has no end, is refused by name."""
    fd = open_regular(path)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def copied(source: BinaryIO) -> Iterator[Path]:
    """What a file object has from where it stands, as a file without a name."""
    if not callable(getattr(source, "read", None)):
        raise WeightsError(f"a {type(source).__name__} is no file: expected its name, or a file object")
    fd = os.memfd_create("penstock")
    try:
        with named("a file object"), open(fd, "wb", closefd=False) as copy:
            shutil.copyfileobj(source, copy, COPY_BYTES)
        yield Path(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
