# SPDX-License-Identifier: Apache-2.0

"""A registry of folder formats for `penstock.weights`, besides its own formats.

A package with its own folder format is above penstock.weights, which therefore cannot import it: `penstock` itself
registers how to open such a folder. The package is imported only when such a folder is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol


class Opened(Protocol):
    """The contents of a folder: tensors and objects by name, its files and their identities (`identity_of`), and a
    function that raises if a tensor's bytes are not the saved ones, or None."""

    tensors: dict[str, Any]
    objects: dict[str, Any]
    files: list[Path]
    identities: dict[Path, tuple[int, int, int, int]]
    check: Callable[[Any, Any], None] | None


Open = Callable[[Path], Any]  # Returns an Opened.
OPENERS: dict[str, Open] = {}


def register(marker: str, opens: Open) -> None:
    """marker: the file that identifies such a folder, whatever else is in it."""
    OPENERS[marker] = opens
