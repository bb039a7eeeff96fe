# SPDX-License-Identifier: Apache-2.0

"""PyTorch's torch.cuda.gds on our library: storages saved and loaded, registered and not."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import harness

SIZES = [4096, 1, 511, 65536, 1000003, 8 * 1024 * 1024 + 12]
OFFSETS = [0, 4096, 7]


def storage_of(torch, data):
    """Bytes on GPU 0. PyTorch's storages are whole blocks of its allocator or pieces inside one."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).cuda().untyped_storage()


def bytes_of(torch, storage):
    return torch.tensor([], dtype=torch.uint8, device="cuda").set_(storage).cpu().numpy().tobytes()


def save_and_load(smoke, torch, gds, path, registered):
    read = written = 0
    word = "registered" if registered else "plain"
    for size in SIZES:
        for offset in OFFSETS:
            data = harness.content(size, seed=size + offset)
            before = harness.content(offset + size + 33, seed=5)
            harness.write_file(path, before)
            storage, other = storage_of(torch, data), storage_of(torch, bytes(size))
            torch.cuda.synchronize()  # cuFile does not wait for PyTorch's stream.
            if registered:
                gds.gds_register_buffer(storage)
                gds.gds_register_buffer(other)
            what = f"{word} storage of {size} bytes at {offset}"
            try:
                file = gds.GdsFile(path, os.O_RDWR)
                file.save_storage(storage, offset)
                on_disk = harness.read_file(path)
                smoke.check(f"save, {what}", on_disk == before[:offset] + data + before[offset + size :])
                file.load_storage(other, offset)
                smoke.check(f"load, {what}", bytes_of(torch, other) == data)
                read, written = read + size, written + size
                del file
            except Exception as error:
                smoke.check(f"{what}: {type(error).__name__}: {error}", False)
            if registered:
                gds.gds_deregister_buffer(storage)
                gds.gds_deregister_buffer(other)
    return read, written


def tensors(smoke, torch, gds, path):
    """A checkpoint as a trainer keeps it: tensors of several kinds, one behind the other, loaded into another model."""
    torch.manual_seed(0)
    kinds = [torch.float32, torch.bfloat16, torch.float16, torch.int64]
    saved = [(torch.rand(1000 + i, 37, device="cuda") * 100).to(kind) for i, kind in enumerate(kinds)]
    loaded = [torch.zeros_like(each) for each in saved]
    torch.cuda.synchronize()
    file = gds.GdsFile(path, os.O_CREAT | os.O_RDWR)
    offsets, end = [], 0
    for each in saved:
        offsets.append(end)
        file.save_storage(each.untyped_storage(), end)
        end += each.untyped_storage().nbytes()
    for each, offset in zip(loaded, offsets):
        file.load_storage(each.untyped_storage(), offset)
    smoke.check(f"{len(saved)} tensors, {end} bytes, equal", all(torch.equal(a, b) for a, b in zip(saved, loaded)))
    return end


def body(smoke):
    import torch

    smoke.version = torch.__version__
    if not torch.cuda.is_available():
        smoke.skip("PyTorch sees no GPU here")
    if not hasattr(torch._C, "_gds_register_handle"):
        smoke.skip(f"PyTorch {torch.__version__} was built without cuFile")
    from torch.cuda import gds

    read = written = 0
    for registered in (False, True):
        moved = save_and_load(smoke, torch, gds, smoke.path("data"), registered)
        read, written = read + moved[0], written + moved[1]
    moved = smoke.attempt("tensors", lambda: tensors(smoke, torch, gds, smoke.path("checkpoint"))) or 0
    smoke.check_moved(read + moved, written + moved)


harness.run("torch.cuda.gds", body)
