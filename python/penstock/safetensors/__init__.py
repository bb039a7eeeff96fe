# SPDX-License-Identifier: Apache-2.0

"""safetensors' Python interface, of its versions 0.8 and 0.9, served by `penstock.weights`.

    from penstock.safetensors import safe_open                # in place of `from safetensors import safe_open`
    from penstock.safetensors.torch import load_file, save_file

`penstock.weights.take_over()` puts these calls under programs that import safetensors.
"""

import penstock.weights  # noqa: F401, first: at its end it may take over, and import a module of this package.
from penstock.safetensors.bytes import TensorSpec, _safe_open_handle, deserialize, serialize, serialize_file
from penstock.weights.opened import Meta as TensorMeta
from penstock.weights.opened import Prefetched as PrefetchLoader
from penstock.weights.opened import Slice as PySafeSlice
from penstock.weights.opened import safe_open
from penstock.weights.tensors import SafetensorError

__version__ = "0.9.0rc1"  # Of the interface.

__all__ = [
    "PrefetchLoader", "PySafeSlice", "SafetensorError", "TensorMeta", "TensorSpec",
    "deserialize", "safe_open", "serialize", "serialize_file",
]
