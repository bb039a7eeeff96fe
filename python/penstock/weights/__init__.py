# SPDX-License-Identifier: Apache-2.0

"""Model weights: files of safetensors and torch.save, and checkpoints of torch.distributed, one file or many.

Reads them into torch tensors at the speed of the link.

    from penstock import weights
    tensors = weights.load_file("model.safetensors", device="cuda")
    for name, tensor in weights.Weights("model/").plan("*.weight", device="cuda"): ...

Tensors are planned first: names, parts of tensors, dtype and device. Then neighbours in a file are read as one range,
several ranges at a time, straight into memory of the device; tensors are views of it. Headers are validated before
anything else is used, and nothing in a file is executed. Tensors that do not fit are refused before the first byte.
"""

from importlib import import_module
from typing import Any

from penstock.progress import Progress
from penstock.weights.conversion import Conversion, convert
from penstock.weights.headers import INDEX, Weights
from penstock.weights.loaders import load, load_file, load_model, save, save_file, save_model
from penstock.weights.opened import Slice, safe_open
from penstock.weights.plan import Plan
from penstock.weights.tensors import Part, Tensor, WeightsError
from penstock.weights.torch_load import load_torch


def take_over() -> Any:
    """Puts this package under safetensors' own calls, in every module of the process: programs that load and save by
    them (Transformers, diffusers, vLLM, SGLang) run unmodified.

    What it cannot serve goes to safetensors itself. Returns what went where, with `give_back()` to end it. Raises
    ImportError if safetensors is not installed.
    """
    return import_module("penstock.safetensors.taking").take_over()  # It builds on this package.


__all__ = [
    "INDEX", "Conversion", "Part", "Plan", "Progress", "Slice", "Tensor", "Weights", "WeightsError", "convert",
    "load", "load_file", "load_model", "load_torch", "safe_open", "save", "save_file", "save_model", "take_over",
]

if "_when_made" in globals():  # Of penstock.startup, which was to take over while this was imported.
    globals().pop("_when_made")()
