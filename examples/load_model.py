#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Loads the weights of a model, and says how they came: load_model.py FILE_OR_FOLDER [DEVICE]

It takes files of safetensors and torch.save, the folder of a sharded model, or a checkpoint. DEVICE is torch's: cpu,
which is the default, or cuda. Where there is no such file yet: load_model.py --make FILE
"""

import sys

import torch

from penstock import weights

if sys.argv[1] == "--make":
    weights.save_model(torch.nn.TransformerEncoderLayer(256, 8), sys.argv[2])
    sys.exit()

plan = weights.Weights(sys.argv[1]).plan(device=sys.argv[2] if len(sys.argv) > 2 else "cpu")
tensors = plan.load()
for name, tensor in list(tensors.items())[:3]:
    print(name, tuple(tensor.shape), tensor.dtype)
print(f"{len(tensors)} tensors of", plan)  # The path, the reason why no better one, and the rate.
