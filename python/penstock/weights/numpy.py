# SPDX-License-Identifier: Apache-2.0

"""Replaces `safetensors.numpy`, without torch.

bfloat16 and the small floating-point types come from the package ml_dtypes, if installed.
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

from penstock.sessions import Session
from penstock.weights.files import copied
from penstock.weights.headers import Weights
from penstock.weights.loaders import save, save_file
from penstock.weights.opened import check_backend

if TYPE_CHECKING:
    import numpy

__all__ = ["load", "load_file", "save", "save_file"]


def load_file(filename: str | os.PathLike[str], *, backend: str = "mmap",
              session: Session | None = None) -> dict[str, numpy.ndarray[Any, Any]]:
    """All arrays of a file, by name."""
    check_backend(backend)
    loaded = Weights([filename]).plan(framework="np", session=session).load()
    return dict(sorted(loaded.items()))


def load(data: bytes, *, session: Session | None = None) -> dict[str, numpy.ndarray[Any, Any]]:
    """All arrays of a file's bytes, by name."""
    with copied(io.BytesIO(data)) as file:
        return load_file(file, session=session)
