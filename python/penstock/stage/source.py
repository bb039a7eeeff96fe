# SPDX-License-Identifier: Apache-2.0

"""The interface of sources: they list files and fetch parts.

A part must be of the listed version, or `ChangedError` is raised. If a source cannot guarantee that (`is_exact`), the
version is checked again after the last part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from penstock.stage.failures import StageError
from penstock.stage.urls import shown_of
from penstock.threads import Event

MAGIC = re.compile(r"[*?\[]")
PLAIN_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
REMEDY = "pip install 'penstock[stage]'"


class Source(Protocol):
    def again(self, file: Found) -> Found:
        """The file in its current version."""

    def is_exact(self, file: Found) -> bool:
        """Whether `fetch` itself detects another version."""

    def has_md5(self, file: Found) -> bool:
        """Whether an ETag that looks like an MD5 really is one. Called if it differs from the bytes' MD5."""

    def checksum_of(self, file: Found) -> int | None:
        """CRC32C of the whole file, if the source has it."""

    def fetch(self, file: Found, begin: int, memory: memoryview, stop: Event) -> None:
        """Fills the memory. Raises ChangedError or TransientError, StageError once `stop` is set, or other errors."""


@dataclass(frozen=True)
class Found:
    """A file of a source, with its target name. version: the source's version of it, if any. md5: if the source has it.
    shown: the path or URL without secrets; origin: the same plus a distinguishing checksum, for the folder's own
    files."""

    source: Source
    path: str
    shown: str
    origin: str
    name: str
    size: int
    version: str | None
    md5: str | None = None


def nothing_there(said: str) -> StageError:
    return StageError(f"list {shown_of(said)}: nothing has this name: check it; name a folder without a pattern, "
                      "and quote patterns in a shell")


def md5_of(tag: str | None) -> str | None:
    """The MD5 in an S3 ETag; None for an ETag of several parts or of an encrypted object."""
    found = PLAIN_MD5.fullmatch(tag) if tag else None
    return found[1] if found else None
