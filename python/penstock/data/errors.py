# SPDX-License-Identifier: Apache-2.0

"""What penstock.data raises, and how it opens files that must be files."""

from __future__ import annotations

from typing import BinaryIO

from penstock.regular import UnfitFileError, open_regular

__all__ = ["DataError", "open_file"]


class DataError(ValueError):
    """Files that are not what the index or the state says, or a state that belongs to other settings."""


def open_file(path: str) -> BinaryIO:
    """Raises DataError for a pipe, which would have a training wait, and whatever else is no file."""
    try:
        return open(open_regular(path), "rb")
    except UnfitFileError as error:
        raise DataError(f"{error}: name the file itself") from None
