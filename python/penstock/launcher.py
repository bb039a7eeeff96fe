# SPDX-License-Identifier: Apache-2.0

"""`penstock run` with the libcufile of this package: one command, however Penstock was installed."""

from __future__ import annotations

import os
import shutil
from importlib import metadata
from pathlib import Path
from typing import NoReturn

from penstock import _native

__all__ = ["library", "run", "tool"]


def library() -> Path:
    """Penstock's libcufile.so.0, as this package has it."""
    return Path(_native.__file__).parent / "lib" / "libcufile.so.0"


def tool() -> Path:
    """The command `penstock` that was installed with this package, wherever pip put it; else the one on PATH.

    Raises FileNotFoundError where there is none.
    """
    try:
        for file in metadata.files("penstock") or []:
            if (file.parent.name, file.name) == ("bin", "penstock"):
                return Path(str(file.locate())).resolve()
    except metadata.PackageNotFoundError:
        pass  # The package lies in PYTHONPATH, not installed.
    on_path = shutil.which("penstock")
    if on_path is None:
        raise FileNotFoundError("run: the command penstock is neither part of this package nor on PATH; wheels and "
                                "Debian's package have it: install one of them")
    return Path(on_path)


def run(words: list[str]) -> NoReturn:
    """Takes the words of `penstock run`, and becomes that command."""
    os.execv(tool(), ["penstock", "run", "--library", str(library()), *words])
