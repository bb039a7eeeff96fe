# SPDX-License-Identifier: Apache-2.0

"""What a KV cache does through NIXL's storage plugins on our library: blocks of one file, stored and loaded by batches.

Each batch takes blocks from all over the memory and the file. Penstock tells which path the bytes of each plugin took,
and at the end, by PENSTOCK_REPORT, why.
"""

import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import harness
from smoke import Mover, load

BLOCK = 256 * 1024
BLOCKS = 256
BATCH = 32


def batches(seed):
    """Each block of the file and one of the memory, at random."""
    mix = random.Random(seed)
    inside, outside = (mix.sample(range(BLOCKS), BLOCKS) for _ in range(2))
    pairs = list(zip(outside, inside, strict=True))
    return [pairs[first : first + BATCH] for first in range(0, BLOCKS, BATCH)]


def pieces(batch):
    return [(BLOCK, BLOCK * outside, BLOCK * inside) for outside, inside in batch]


def block(data, number):
    return data[BLOCK * number : BLOCK * (number + 1)]


def through(smoke, nixl, backend, memory, path):
    """Stores all blocks by one plan, and loads them by another into memory that was wiped."""
    stored, loaded = batches(1), batches(2)
    harness.write_file(path, bytes(BLOCK * BLOCKS))
    data = harness.content(BLOCK * BLOCKS)
    memory.put(data)
    mover = Mover(nixl, backend, memory, path)
    for batch in stored:
        mover.move("WRITE", pieces(batch))
    on_disk = harness.read_file(path)
    smoke.check(f"{backend}: {BLOCKS} blocks stored in batches of {BATCH}",
                all(block(on_disk, outside) == block(data, inside) for batch in stored for outside, inside in batch))
    memory.put(bytes(len(data)))
    for batch in loaded:
        mover.move("READ", pieces(batch))
    now = memory.get()
    smoke.check(f"{backend}: {BLOCKS} blocks loaded in batches of {BATCH}",
                all(block(now, inside) == block(on_disk, outside) for batch in loaded for outside, inside in batch))
    mover.close()


def body(smoke):
    memory = harness.new_memory(smoke, BLOCK * BLOCKS)
    nixl, smoke.version = load()
    smoke.keep_open()  # The plugins close the driver with their backend.
    before, asked = {}, BLOCK * BLOCKS
    for backend in ("GDS", "GDS_MT"):
        through(smoke, nixl, backend, memory, smoke.path(f"blocks-{backend}"))
        now = smoke.moved_by_path()
        took = {path: tuple(after - then for after, then in zip(moved, before.get(path, (0, 0)), strict=True))
                for path, moved in now.items()}
        for path, (read, written) in took.items():
            print(f"       {backend}: {read} bytes read and {written} written by path {path}")
        totals = [sum(each[i] for each in took.values()) for i in (0, 1)]
        smoke.check(f"{backend}: every byte went through Penstock, once", totals == [asked, asked])
        before = now
    if isinstance(memory, harness.HostMemory):
        print("NOT SHOWN: the blocks were in host memory, as PENSTOCK_DEVICE=host says. Which path bytes take between "
              "a drive and a GPU, only a machine with a GPU shows.")


if __name__ == "__main__":
    harness.run("nixl_kv", body, {"NIXL_LOG_LEVEL": "WARN", "PENSTOCK_REPORT": "stderr"})
