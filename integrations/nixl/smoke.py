# SPDX-License-Identifier: Apache-2.0

"""NIXL's storage plugins GDS (batches) and GDS_MT (threads) on our library: Dynamo and vLLM spill KV caches with it."""

import importlib.util
import os
import sys
import time
from importlib import metadata

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import harness

MANY = 64
BLOCK = 40000


def load():
    """The package is named for the CUDA it was built for."""
    for name in ("nixl_cu13", "nixl_cu12"):
        if importlib.util.find_spec(name):
            return importlib.import_module(name), metadata.version(name)
    raise ImportError("neither nixl_cu13 nor nixl_cu12")


class Mover:
    """A backend of an agent, with one file and one memory registered, as vLLM's and Dynamo's connectors have them."""

    def __init__(self, nixl, backend, memory, path):
        self._agent = nixl.nixl_agent(backend, nixl.nixl_agent_config(enable_prog_thread=False, backends=[]))
        self._backend = backend
        self._memory = memory
        self._kind = "DRAM" if isinstance(memory, harness.HostMemory) else "VRAM"
        self._file = os.open(path, os.O_RDWR)
        self._agent.create_backend(backend)
        self._registered = [
            self._agent.register_memory([(memory.address, memory.size, 0, "")], self._kind, [backend]),
            self._agent.register_memory([(0, memory.size, self._file, "")], "FILE", [backend]),
        ]

    def move(self, operation, pieces):
        """Moves (size, file offset, memory offset) pieces in one transfer; returns their bytes."""
        local = self._agent.get_xfer_descs([(self._memory.address + to, size, 0) for size, _, to in pieces], self._kind)
        remote = self._agent.get_xfer_descs([(at, size, self._file) for size, at, _ in pieces], "FILE")
        transfer = self._agent.initialize_xfer(operation, local, remote, self._agent.name, backends=[self._backend])
        state = self._agent.transfer(transfer)
        deadline = time.monotonic() + 20
        while state == "PROC" and time.monotonic() < deadline:
            state = self._agent.check_xfer_state(transfer)
        self._agent.release_xfer_handle(transfer)
        if state != "DONE":
            raise harness.Failed(f"the transfer ended as {state}")
        return sum(size for size, _, _ in pieces)

    def close(self):
        for each in self._registered:
            self._agent.deregister_memory(each, [self._backend])
        os.close(self._file)


def many(smoke, mover, memory, path, data):
    """MANY pieces in one transfer, scattered in memory backwards, and gathered again into another order."""
    pieces = [(BLOCK, i * BLOCK, (MANY - 1 - i) * (BLOCK + 64)) for i in range(MANY)]
    memory.put(bytes([harness.SURROUNDINGS]) * memory.size)
    mover.move("READ", pieces)
    now = memory.get()
    smoke.check(f"{MANY} pieces in one read", all(now[to : to + n] == data[at : at + n] for n, at, to in pieces))
    back = [(n, (MANY - 1 - i) * BLOCK, to) for i, (n, _, to) in enumerate(pieces)]
    mover.move("WRITE", back)
    on_disk = harness.read_file(path)
    smoke.check(f"{MANY} pieces in one write", all(on_disk[at : at + n] == now[to : to + n] for n, at, to in back))
    return MANY * BLOCK


def body(smoke):
    memory = harness.new_memory(smoke)
    nixl, smoke.version = load()
    smoke.keep_open()  # The plugins close the driver with their backend.
    path = smoke.path("data")
    data = harness.content(harness.FILE_SIZE)
    inside = tuple(harness.RANGES)  # A transfer beyond the end of a file is an error to NIXL.
    read = written = 0
    for backend in ("GDS", "GDS_MT"):
        harness.write_file(path, data)
        mover = Mover(nixl, backend, memory, path)
        one = lambda operation: lambda size, at, to: mover.move(operation, [(size, at, to)])
        read += harness.check_reads(smoke, f"{backend} read", memory, data, one("READ"), inside)
        written += harness.check_writes(smoke, f"{backend} write", memory, path, one("WRITE"), inside)
        harness.write_file(path, data)
        moved = smoke.attempt(f"{backend}: many pieces", lambda: many(smoke, mover, memory, path, data)) or 0
        read, written = read + moved, written + moved
        smoke.attempt(f"{backend}: close", mover.close)
    smoke.check_moved(read, written)


if __name__ == "__main__":
    harness.run("nixl", body, {"NIXL_LOG_LEVEL": "WARN"})
