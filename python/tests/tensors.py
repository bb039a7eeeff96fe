# SPDX-License-Identifier: Apache-2.0

"""Tensors that tests write and read back: of any bytes, on every kind of device that there is."""

import torch

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def random_tensor(dtype, *shape):
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, dtype=torch.uint8).bool()
    size = torch.empty(0, dtype=dtype).element_size()
    return torch.randint(0, 256, (torch.Size(shape).numel() * size,), dtype=torch.uint8).view(dtype).view(shape)


def raw(tensor):
    """Its bytes, row by row: NaN is what it is."""
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().flatten()
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
