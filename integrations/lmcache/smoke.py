# SPDX-License-Identifier: Apache-2.0

"""LMCache's GDS slab (lmcache.v1.gpu_connector.gds_backends.cufile) on our library: stream-ordered reads and writes."""

import os
import sys
from importlib import metadata
from types import SimpleNamespace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import harness

SLAB, CHUNK = 16 << 20, 256 << 10
CHUNKS = harness.MEMORY_SIZE // CHUNK // 2


def body(smoke):
    memory = harness.new_memory(smoke, may_be_host=False)
    smoke.version = metadata.version("lmcache")
    from lmcache.v1.gpu_connector.gds_backends.cufile import Backend

    stream, source, backend = harness.new_stream(), harness.content(harness.MEMORY_SIZE), Backend()
    tensor = SimpleNamespace(is_cuda=True, data_ptr=lambda: memory.address, numel=lambda: memory.size,
                             element_size=lambda: 1)
    backend.register_stream(stream)
    backend.register_buffer(tensor)
    for direct in (False, True):
        label = "with O_DIRECT" if direct else "through the page cache"
        slab = backend.open_slab(smoke.directory, SLAB, direct)
        memory.put(source)
        places = [(i * CHUNK, (7 * i + 3) % (SLAB // CHUNK) * CHUNK) for i in range(CHUNKS)]
        # Each chunk is written from the memory's first half and read into its second, without a wait between them.
        moves = [slab.write_async(memory.address, CHUNK, at, buffer, stream) for buffer, at in places]
        moves += [slab.read_async(memory.address, CHUNK, at, memory.size // 2 + buffer, stream)
                  for buffer, at in places]
        harness.wait_for(stream)
        smoke.check(f"{label}: {len(moves)} transfers moved all", {move.bytes_done for move in moves} == {CHUNK})
        half = source[:memory.size // 2]
        smoke.check(f"{label}: what was stored comes back elsewhere", memory.get() == half + half)
        on_disk = harness.read_file(slab.path)
        smoke.check(f"{label}: the slab has each chunk in its place", all(
            on_disk[at:at + CHUNK] == source[buffer:buffer + CHUNK] for buffer, at in places))
        slab.close()
    smoke.check_moved(2 * CHUNKS * CHUNK, 2 * CHUNKS * CHUNK)
    backend.deregister_buffer(tensor)
    backend.deregister_stream(stream)
    backend.close_driver()


def environment(library):
    """cufile-python, by which LMCache calls it, asks for "libcufile.so", without a number."""
    return {"LD_LIBRARY_PATH": harness.prepend("LD_LIBRARY_PATH", os.path.dirname(library))}


harness.run("lmcache", body, environment)
