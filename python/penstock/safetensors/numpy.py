# SPDX-License-Identifier: Apache-2.0

"""In place of `safetensors.numpy`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.weights import loaders
from penstock.weights import numpy as arrays
from penstock.weights.opened import safe_open

if TYPE_CHECKING:
    import numpy

load = arrays.load


def load_file(filename: str | os.PathLike[str], *, backend: str = "mmap") -> dict[str, numpy.ndarray[Any, Any]]:
    with safe_open(filename, "np", backend=backend) as opened:
        return opened.get_tensors()


def save(tensor_dict: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    return loaders.save(tensor_dict, metadata, alignment=loaders.STOCK_ALIGNMENT)


def save_file(tensor_dict: Mapping[str, Any], filename: str | os.PathLike[str],
              metadata: Mapping[str, str] | None = None) -> None:
    loaders.write_file(tensor_dict, filename, metadata, None, may_share=False, alignment=loaders.STOCK_ALIGNMENT)
