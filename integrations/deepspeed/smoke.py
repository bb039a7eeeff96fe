# SPDX-License-Identifier: Apache-2.0

"""DeepSpeed's GPUDirect Storage operator (DeepNVMe) on our library: what ZeRO-Inference and offloaded optimizers use.

DeepSpeed compiles the operator on first use: that takes a CUDA toolkit, libaio's header, and a libcufile.so to link
with, for which ours will do. The first run takes a minute or two.
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import harness

SIZES = [1 << 20, 4096, 65536 + 4096, 33 << 20]


def check_size(smoke, torch, handle, path, size):
    """A registered tensor written and read back, whole and at an offset, blocking and not."""
    data = harness.content(size, seed=size)
    source = torch.frombuffer(bytearray(data), dtype=torch.uint8).cuda()
    target = torch.zeros_like(source)
    torch.cuda.synchronize()  # cuFile does not wait for PyTorch's stream.
    handle.pin_device_tensor(source)
    handle.pin_device_tensor(target)
    harness.write_file(path, b"")
    done = handle.sync_pwrite(source, path)
    smoke.check(f"sync_pwrite, {size} bytes: {done}", done == 1 and harness.read_file(path) == data)
    done = handle.sync_pread(target, path)
    smoke.check(f"sync_pread, {size} bytes: {done}", done == 1 and torch.equal(source, target))
    offset = 8192
    started = handle.async_pwrite(source, path, offset)
    done = handle.wait()
    smoke.check(f"async_pwrite at {offset}, {size} bytes: {done}",
                started == 0 and done == 1 and harness.read_file(path)[offset:] == data)
    target.zero_()
    torch.cuda.synchronize()
    started = handle.async_pread(target, path, offset)
    done = handle.wait()
    smoke.check(f"async_pread at {offset}, {size} bytes: {done}",
                started == 0 and done == 1 and torch.equal(source, target))
    handle.unpin_device_tensor(source)
    handle.unpin_device_tensor(target)
    return 2 * size


def body(smoke):
    import torch

    if not torch.cuda.is_available():
        smoke.skip("PyTorch sees no GPU here")
    import deepspeed
    from deepspeed.ops.op_builder import GDSBuilder

    smoke.version = deepspeed.__version__
    builder = GDSBuilder()
    if not builder.is_compatible(verbose=True):
        smoke.skip("DeepSpeed cannot build its operator here: it wants libaio.h, libaio.so and libcufile.so")
    os.chdir(smoke.directory)  # The operator writes a local_cufile.json where it stands.
    smoke.keep_open()
    operator = builder.load(verbose=False)
    moved = 0
    for parallel in (1, 4):
        handle = operator.gds_handle(1 << 20, 128, True, True, parallel)
        for size in SIZES:
            moved += smoke.attempt(f"{parallel} threads, {size} bytes",
                                   lambda: check_size(smoke, torch, handle, smoke.path("data"), size)) or 0
        del handle
    smoke.check_moved(moved, moved)


def environment(library):
    """Our library's directory has the libcufile.so to link with. DeepSpeed reads no architecture such as "9.0a"."""
    wanted = {"LIBRARY_PATH": harness.prepend("LIBRARY_PATH", os.path.dirname(library))}
    if "TORCH_CUDA_ARCH_LIST" in os.environ:
        wanted["TORCH_CUDA_ARCH_LIST"] = re.sub(r"(\d)[a-z]+", r"\1", os.environ["TORCH_CUDA_ARCH_LIST"])
    return wanted


harness.run("deepspeed", body, environment)
