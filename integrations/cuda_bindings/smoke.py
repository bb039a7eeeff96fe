# SPDX-License-Identifier: Apache-2.0

"""NVIDIA's cuda.bindings.cufile on our library: reads, writes, batches, streams, parameters and statistics."""

import ctypes
import os
import sys
from importlib import metadata

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import harness

BLOCK = 65536
BATCH = 16


class File:
    """A descriptor, registered."""

    def __init__(self, cufile, path, flags):
        self._cufile = cufile
        self._descriptor = os.open(path, flags)
        record = cufile.Descr()
        record.type = cufile.FileHandleType.OPAQUE_FD
        # The union is an object of its own in some versions, an array of records in others.
        record.handle.fd = self._descriptor
        record.fs_ops = 0
        self._record = record
        self.handle = cufile.handle_register(record.ptr)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._cufile.handle_deregister(self.handle)
        os.close(self._descriptor)


def told(count):
    """Versions before 13.1 return nothing, only raise."""
    return harness.NOT_TOLD if count is None else count


def plain(smoke, cufile, memory, path, data):
    read = written = 0
    cufile.buf_register(memory.address, memory.size, 0)
    for flags, label in ((os.O_RDONLY, "read"), (os.O_RDONLY | os.O_DIRECT, "read, O_DIRECT")):
        with File(cufile, path, flags) as file:
            read += harness.check_reads(
                smoke, label, memory, data,
                lambda size, at, to: told(cufile.read(file.handle, memory.address, size, at, to)))
    with File(cufile, path, os.O_RDWR) as file:
        written += harness.check_writes(
            smoke, "write", memory, path,
            lambda size, at, to: told(cufile.write(file.handle, memory.address, size, at, to)))
    cufile.buf_deregister(memory.address)
    return read, written


def batch(smoke, cufile, memory, path, data, opcode):
    """BATCH requests of BLOCK bytes, in the file at multiples of BLOCK, in memory with a gap of 4096 between them."""
    reading = opcode == cufile.Opcode.READ
    source = harness.content(memory.size, seed=3)
    memory.put(bytes([harness.SURROUNDINGS]) * memory.size if reading else source)
    with File(cufile, path, os.O_RDWR) as file:
        batch_id = cufile.batch_io_set_up(BATCH)
        requests = cufile.IOParams(BATCH)
        for i in range(BATCH):
            requests[i].mode = cufile.BatchMode.BATCH
            requests[i].fh = file.handle
            requests[i].opcode = opcode
            requests[i].cookie = 1000 + i
            requests[i].u.batch.dev_ptr_base = memory.address
            requests[i].u.batch.file_offset = i * BLOCK
            requests[i].u.batch.dev_ptr_offset = i * (BLOCK + 4096)
            requests[i].u.batch.size_ = BLOCK
        cufile.batch_io_submit(batch_id, BATCH, requests.ptr, 0)
        done = {}
        while len(done) < BATCH:
            events = cufile.IOEvents(BATCH)
            count = ctypes.c_uint(BATCH - len(done))
            timeout = (ctypes.c_long * 2)(5, 0)
            cufile.batch_io_get_status(
                batch_id, BATCH - len(done), ctypes.addressof(count), events.ptr, ctypes.addressof(timeout))
            if count.value == 0:
                raise harness.Failed(f"batch: nothing more came in 5 s after {len(done)} of {BATCH}")
            for i in range(count.value):
                done[int(events[i].cookie)] = (int(events[i].status), int(events[i].ret))
        cufile.batch_io_destroy(batch_id)
    whole = {1000 + i: (int(cufile.Status.COMPLETE), BLOCK) for i in range(BATCH)}
    word = "read" if reading else "write"
    smoke.check(f"batch {word}: {BATCH} requests complete, each with its cookie and its bytes", done == whole)
    now, on_disk = memory.get(), harness.read_file(path)
    expect = data if reading else source
    equal = True
    for i in range(BATCH):
        at, in_memory = i * BLOCK, i * (BLOCK + 4096)
        got = now[in_memory : in_memory + BLOCK] if reading else on_disk[at : at + BLOCK]
        equal &= got == (expect[at : at + BLOCK] if reading else expect[in_memory : in_memory + BLOCK])
    smoke.check(f"batch {word}: the bytes are the file's", equal)
    return BATCH * BLOCK


def streams(smoke, cufile, memory, path, data):
    """A read and a write, queued on one stream without waiting between them: the write must see what was read."""
    size, at, to, back = 1048577, 4097, 12345, 2 * 1024 * 1024
    stream = harness.new_stream()
    cufile.stream_register(stream, 0)
    memory.put(bytes([harness.SURROUNDINGS]) * memory.size)
    values = [(ctypes.c_int64 * 4)(size, at, to, -77), (ctypes.c_int64 * 4)(size, back, to, -77)]
    with File(cufile, path, os.O_RDWR) as file:
        for call, each in zip((cufile.read_async, cufile.write_async), values):
            base = ctypes.addressof(each)
            call(file.handle, memory.address, base, base + 8, base + 16, base + 24, stream)
        harness.wait_for(stream)
    cufile.stream_deregister(stream)
    smoke.check(f"stream: the read says {values[0][3]} bytes, the write {values[1][3]}",
                values[0][3] == size and values[1][3] == size)
    smoke.check("stream: the bytes in memory are the file's", memory.get()[to : to + size] == data[at : at + size])
    smoke.check("stream: the write wrote what the read had read",
                harness.read_file(path)[back : back + size] == data[at : at + size])
    return size


def settings(smoke, cufile):
    """What else this version of the client binds: no answer may be an error."""
    named = {
        "get_parameter_size_t": lambda f: f(cufile.SizeTConfigParameter.EXECUTION_MAX_IO_THREADS),
        "get_parameter_bool": lambda f: f(cufile.BoolConfigParameter.PROPERTIES_ALLOW_COMPAT_MODE),
        "get_parameter_string": lambda f: f(cufile.StringConfigParameter.LOGGING_LEVEL, 256),
        "get_stats_level": lambda f: f(),
        "get_bar_size_in_kb": lambda f: f(0),
    }
    for name, call in named.items():
        if hasattr(cufile, name):
            smoke.attempt(name, lambda: call(getattr(cufile, name)))


def statistics(smoke, cufile, memory, path):
    """Level 1 counts operations and bytes, level 0 does not."""
    counted = []
    with File(cufile, path, os.O_RDONLY) as file:
        for level in (1, 0):
            cufile.set_stats_level(level)
            if level == 1:
                cufile.stats_reset()
                cufile.stats_start()
            for _ in range(3):
                cufile.read(file.handle, memory.address, 4096, 0, 0)
            record = cufile.StatsLevel1()
            if level == 1:
                cufile.get_stats_l1(record.ptr)
                counted = [int(record.read_ops.ok), int(record.read_bytes)]
                cufile.stats_stop()
    smoke.check(f"statistics: reads and bytes {counted}", counted == [3, 3 * 4096])


def body(smoke):
    memory = harness.new_memory(smoke)
    from cuda.bindings import cufile

    smoke.version = metadata.version("cuda-bindings")
    data = harness.content(harness.FILE_SIZE)
    path = smoke.path("data")
    harness.write_file(path, data)
    cufile.driver_open()
    smoke.check(f"get_version: {cufile.get_version()}", cufile.get_version() >= 1000)
    read, written = plain(smoke, cufile, memory, path, data)
    harness.write_file(path, data)
    for action, moved in (
        (lambda: batch(smoke, cufile, memory, path, data, cufile.Opcode.READ), "read"),
        (lambda: batch(smoke, cufile, memory, path, data, cufile.Opcode.WRITE), "write"),
    ):
        count = smoke.attempt(f"batch {moved}", action) or 0
        read, written = (read + count, written) if moved == "read" else (read, written + count)
    if os.environ.get("PENSTOCK_DEVICE") == "host":
        print("skipped: streams, which need a GPU")
    else:
        harness.write_file(path, data)
        count = smoke.attempt("streams", lambda: streams(smoke, cufile, memory, path, data)) or 0
        read, written = read + count, written + count
    settings(smoke, cufile)
    if hasattr(cufile, "StatsLevel1"):
        smoke.attempt("statistics", lambda: statistics(smoke, cufile, memory, path))
    smoke.check_moved(read, written)
    cufile.driver_close()


harness.run("cuda.bindings.cufile", body)
