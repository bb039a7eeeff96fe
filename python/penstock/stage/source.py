# SPDX-License-Identifier: Apache-2.0

"""What a source of files is: it lists, and fetches a part.

A part is of the version that was listed, or `ChangedError` is raised. Where a source cannot see to that (`is_exact`),
the version is looked at again when all parts are there.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import Protocol

from penstock.stage.failures import StageError
from penstock.stage.urls import shown_of

MAGIC = re.compile(r"[*?\[]")
PLAIN_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
REMEDY = "pip install 'penstock[stage]'"


class Source(Protocol):
    def again(self, file: Found) -> Found:
        """As it is now."""

    def is_exact(self, file: Found) -> bool:
        """Whether `fetch` itself tells that another version is there."""

    def has_md5(self, file: Found) -> bool:
        """Whether what looks like its MD5 is one. Asked where it is not that of the bytes."""

    def checksum_of(self, file: Found) -> int | None:
        """CRC32C of all of it, where the source tells that."""

    def fetch(self, file: Found, begin: int, memory: memoryview, stop: threading.Event) -> None:
        """Fills the memory. Raises ChangedError, TransientError; once `stop` is set StageError; or what it may."""


@dataclass(frozen=True)
class Found:
    """A file of a source, and the name that it gets. version: what the source calls its state, if it does. md5: where
    the source tells it. shown: the path or URL without what may be secret; origin: the same, and what tells it from
    others, for the folder's own files."""

    source: Source
    path: str
    shown: str
    origin: str
    name: str
    size: int
    version: str | None
    md5: str | None = None


def nothing_there(said: str) -> StageError:
    return StageError(f"list {shown_of(said)}: there is nothing: check the name; a folder is meant by its own name, "
                      "and a pattern wants quotes in a shell")


def md5_of(tag: str | None) -> str | None:
    """Of an ETag of S3: None where it is of several parts, or of an encrypted object."""
    found = PLAIN_MD5.fullmatch(tag) if tag else None
    return found[1] if found else None
