# SPDX-License-Identifier: Apache-2.0

"""Who opens folders of a format for `penstock.weights`, beside the formats that it knows itself.

A package that writes folders of its own lies above penstock.weights, which therefore cannot name it: whoever knows
both, `penstock` itself, registers how such a folder is opened. Nothing is imported for it before a folder is there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol


class Opened(Protocol):
    """What a folder has: tensors and objects by name, its files and which ones they were (`identity_of`), and what
    raises where the bytes of a tensor are not those that were saved, or None."""

    tensors: dict[str, Any]
    objects: dict[str, Any]
    files: list[Path]
    identities: dict[Path, tuple[int, int, int, int]]
    check: Callable[[Any, Any], None] | None


Open = Callable[[Path], Any]  # Gives an Opened.
OPENERS: dict[str, Open] = {}


def register(marker: str, opens: Open) -> None:
    """marker: the file that such a folder has. Folders that have it are opened so, whatever else is in them."""
    OPENERS[marker] = opens
