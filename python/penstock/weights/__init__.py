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

from penstock.progress import Progress
from penstock.weights.conversion import Conversion, convert
from penstock.weights.headers import INDEX, Weights
from penstock.weights.loaders import load, load_file, load_model, save, save_file, save_model
from penstock.weights.opened import Slice, safe_open
from penstock.weights.plan import Plan
from penstock.weights.tensors import Part, Tensor, WeightsError
from penstock.weights.torch_load import load_torch

__all__ = [
    "INDEX", "Conversion", "Part", "Plan", "Progress", "Slice", "Tensor", "Weights", "WeightsError", "convert",
    "load", "load_file", "load_model", "load_torch", "safe_open", "save", "save_file", "save_model",
]
