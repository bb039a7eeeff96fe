# SPDX-License-Identifier: Apache-2.0

"""The removal of a checkpoint: first checkpoint.json, then its files."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from penstock.checkpoint.layout import NAME
from penstock.checkpoint.leftovers import finish_removal, put_back
from penstock.checkpoint.reading import folder_of, is_meant, name_aside, read_description, read_layout
from penstock.folders import flush_folder


def remove(folder: str | os.PathLike[str]) -> None:
    """Removes checkpoint.json first, then the data files. Other files in the folder stay, and then the folder, too."""
    place = folder_of(folder)
    while not remove_checkpoint(place, read_layout(place).save_id):
        pass  # Another save was published meanwhile.


def remove_checkpoint(place: Path, expected: str) -> bool:
    """expected: the id of the save to remove; another one is kept, or put back."""
    if read_layout(place).save_id != expected:
        return False
    aside = place / name_aside(expected)
    (place / NAME).rename(aside)
    layout = read_description(aside)
    if not is_meant(aside.name, layout):
        if not put_back(aside):
            finish_removal(aside, layout)
        return False
    finish_removal(aside, layout)
    with contextlib.suppress(OSError):  # The folder has other files.
        place.rmdir()
        flush_folder(place.parent)
    return True
