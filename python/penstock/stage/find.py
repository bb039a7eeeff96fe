# SPDX-License-Identifier: Apache-2.0

"""Finds source files: local paths directly, everything else by fsspec."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock.regular import open_regular
from penstock.stage.failures import ChangedError, StageError
from penstock.stage.remote import find_remote
from penstock.stage.source import MAGIC, REMEDY, Found, nothing_there
from penstock.stage.urls import shown_of
from penstock.threads import Event


def find(said: str, options: dict[str, Any]) -> Iterator[Found]:
    """The files of a source, with names relative to its folder. Raises StageError."""
    scheme = urlsplit(said).scheme if "://" in said else ""
    if scheme in ("", "file"):
        yield from _find_local(unquote(urlsplit(said).path) if scheme else said, said)
        return
    try:
        import fsspec  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise StageError(f"open {shown_of(said)}: fsspec is not installed: {REMEDY}") from None
    yield from find_remote(fsspec, said, scheme, options)


# ---- Local paths

class Local:
    def again(self, file: Found) -> Found:
        facts = os.stat(file.path)
        return replace(file, size=facts.st_size, version=_version(facts))

    def is_exact(self, file: Found) -> bool:
        return True

    def has_md5(self, file: Found) -> bool:
        return False

    def checksum_of(self, file: Found) -> int | None:
        return None

    def fetch(self, file: Found, begin: int, memory: memoryview, stop: Event) -> None:
        fd = open_regular(file.path)
        try:
            done = 0
            while done < len(memory):
                got = os.preadv(fd, [memory[done:]], begin + done)
                if got == 0:
                    raise ChangedError
                done += got
            if _version(os.fstat(fd)) != file.version:
                raise ChangedError
            os.posix_fadvise(fd, begin, len(memory), os.POSIX_FADV_DONTNEED)  # The file is read only once.
        finally:
            os.close(fd)


def _version(facts: os.stat_result) -> str:
    return f"{facts.st_size}-{facts.st_mtime_ns}"


def _find_local(path: str, said: str) -> Iterator[Found]:
    if "\0" in path:
        raise StageError(f"list {said!r}: no file has a NUL in its name: name another")
    if os.path.isdir(path):
        yield from _below(path, path)
    elif os.path.lexists(path):
        yield _local(path, os.path.dirname(path))
    elif MAGIC.search(path):
        fixed = os.path.dirname(MAGIC.split(path)[0])
        found = sorted(glob.glob(path, recursive=True, include_hidden=True))
        if not found:
            raise nothing_there(said)
        for each in found:
            if not os.path.isdir(each):
                yield _local(each, fixed)
    else:
        raise nothing_there(said)


def _below(folder: str, root: str) -> Iterator[Found]:
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        if not entry.is_dir():
            yield _local(entry.path, root)
        elif entry.is_symlink():
            raise StageError(f"list {root}: {entry.path} is a link to a folder, and is not followed: name that folder "
                             "as a source, or remove the link")
        else:
            yield from _below(entry.path, root)


LOCAL = Local()


def _local(path: str, root: str) -> Found:
    try:
        facts = os.stat(path)
    except OSError as error:
        raise StageError(f"list the sources: {path}: {error.strerror}: remove it, or make it readable") from None
    if not stat.S_ISREG(facts.st_mode):
        raise StageError(f"list the sources: {path} is no regular file: remove it, or name the others one by one")
    whole = os.path.abspath(path)
    return Found(LOCAL, path, whole, whole, os.path.relpath(path, root or "."), facts.st_size, _version(facts))
