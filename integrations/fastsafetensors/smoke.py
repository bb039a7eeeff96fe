# SPDX-License-Identifier: Apache-2.0

"""fastsafetensors on our library: a model's weights, straight into GPU memory, as vLLM's loader of that name does it.

Its loader asks for the device node of NVIDIA's kernel module before it opens cuFile, and reads by itself where there is
none. Then this test builds the reader that the loader would have built.
"""

import json
import os
import struct
import sys
from importlib import metadata

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import harness

NODE = "/dev/nvidia-fs0"


def write_model(torch, path):
    """A safetensors file by the format's own words: a length, a header in JSON, the tensors one behind the other."""
    torch.manual_seed(1)
    kinds = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16, "U8": torch.uint8}
    model, header, blob = {}, {}, b""
    for i, (word, kind) in enumerate(kinds.items()):
        tensor = (torch.rand(700 + i, 513) * 200).to(kind)
        data = tensor.view(torch.uint8).numpy().tobytes()
        model[f"layer.{i}.{word}"] = tensor
        header[f"layer.{i}.{word}"] = {
            "dtype": word, "shape": list(tensor.shape), "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    words = json.dumps(header).encode()
    words += b" " * (-len(words) % 8)
    harness.write_file(path, struct.pack("<Q", len(words)) + words + blob)
    return model, len(blob)


def check_model(smoke, torch, label, model, loaded):
    for name, tensor in model.items():
        there = loaded.get(name)
        smoke.check(f"{label}: {name}", there is not None and there.is_cuda and torch.equal(there.cpu(), tensor))


def by_loader(smoke, torch, model, path):
    import fastsafetensors

    with fastsafetensors.fastsafe_open([path], framework="pt", device="cuda:0", nogds=False) as file:
        check_model(smoke, torch, "fastsafe_open", model, {name: file.get_tensor(name).clone() for name in file.keys()})


def by_reader(smoke, torch, model, path, registered):
    from fastsafetensors import SafeTensorsMetadata, cpp
    from fastsafetensors.copier import gds
    from fastsafetensors.frameworks import get_framework_op

    framework = get_framework_op("pytorch")
    device = framework.get_device("cuda:0", framework.get_process_group(None))
    gds.init_gds(framework)
    reader = cpp.gds_file_reader(4, True, 0)
    copier = gds.GdsFileCopier(SafeTensorsMetadata.from_file(path, framework), device, reader, framework)
    memory = copier.submit_io(registered, 1 << 20)
    tensors = copier.wait_io(memory)
    label = "GdsFileCopier, registered" if registered else "GdsFileCopier"
    check_model(smoke, torch, label, model, {name: each.get_raw() for name, each in tensors.items()})


def body(smoke):
    import torch

    if not torch.cuda.is_available():
        smoke.skip("PyTorch sees no GPU here")
    smoke.version = metadata.version("fastsafetensors")
    smoke.keep_open()
    path = smoke.path("model.safetensors")
    model, size = write_model(torch, path)
    times = 0
    if os.path.exists(NODE):
        smoke.attempt("the loader", lambda: by_loader(smoke, torch, model, path))
        times += 1
    else:
        print(f"skipped: the loader, which asks for {NODE}")
    for registered in (False, True):
        smoke.attempt("the reader", lambda: by_reader(smoke, torch, model, path, registered))
        times += 1
    smoke.check_moved(times * size, 0)


harness.run("fastsafetensors", body)
