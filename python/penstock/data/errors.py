# SPDX-License-Identifier: Apache-2.0

"""The exception of penstock.data, and a safe way to open its files."""

from __future__ import annotations

from typing import BinaryIO

from penstock.regular import UnfitFileError, open_regular

__all__ = ["DataError", "open_file"]


class DataError(ValueError):
    """The files do not match the index or the state, or the state belongs to other settings."""


def open_file(path: str) -> BinaryIO:
    """Raises DataError for a pipe, which would block the training, and for anything else that is not a file."""
    try:
        return open(open_regular(path), "rb")
    except UnfitFileError as error:
        raise DataError(f"{error}: name the file itself") from None
