# SPDX-License-Identifier: Apache-2.0

"""KvikIO on our library, its own compatibility mode off: blocking, threaded and stream-ordered reads and writes.

Batches are in its C++ interface alone: smoke.cc.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import harness


def threaded(smoke, kvikio, memory, path, data, read, written):
    """pread() and pwrite() cut a request into tasks for KvikIO's threads; they begin at the start of a buffer."""
    at_start = tuple((size, at, 0) for size, at, _ in harness.RANGES + [harness.TAIL])
    with kvikio.CuFile(path, "r") as file:
        read += harness.check_reads(
            smoke, "pread", memory, data,
            lambda size, at, _: file.pread(memory, size, at, task_size=256 * 1024).get(), at_start)
    with kvikio.CuFile(path, "r+") as file:
        written += harness.check_writes(
            smoke, "pwrite", memory, path,
            lambda size, at, _: file.pwrite(memory, size, at, task_size=256 * 1024).get(), at_start[:-1])
    return read, written


def raw(smoke, kvikio, memory, path, data, read, written):
    with kvikio.CuFile(path, "r") as file:
        read += harness.check_reads(
            smoke, "raw_read", memory, data, lambda size, at, to: file.raw_read(memory, size, at, to))
    with kvikio.CuFile(path, "r+") as file:
        written += harness.check_writes(
            smoke, "raw_write", memory, path, lambda size, at, to: file.raw_write(memory, size, at, to))
    return read, written


def on_stream(smoke, kvikio, memory, path, data, read, written):
    for stream, label in ((harness.new_stream(), "a stream"), (0, "the default stream")):
        harness.write_file(path, data)
        if stream:
            kvikio.stream_register(stream, 0)
        with kvikio.CuFile(path, "r+") as file:
            read += harness.check_reads(
                smoke, f"read on {label}", memory, data,
                lambda size, at, to: file.raw_read_async(memory, stream, size, at, to).check_bytes_done())
            written += harness.check_writes(
                smoke, f"write on {label}", memory, path,
                lambda size, at, to: file.raw_write_async(memory, stream, size, at, to).check_bytes_done())
        harness.write_file(path, data)
        with kvikio.CuFile(path, "r+") as file:
            # Queued without a wait between them: the write must see what the read brought.
            first = file.raw_read_async(memory, stream, 1000001, 4097, 77)
            second = file.raw_write_async(memory, stream, 1000001, 2000000, 77)
            counts = first.check_bytes_done(), second.check_bytes_done()
        smoke.check(f"read then write on {label}: {counts}",
                    counts == (1000001, 1000001)
                    and harness.read_file(path)[2000000:3000001] == data[4097 : 4097 + 1000001])
        read, written = read + 1000001, written + 1000001
        if stream:
            kvikio.stream_deregister(stream)
    return read, written


def body(smoke):
    memory = harness.new_memory(smoke, may_be_host=False)
    import kvikio
    import kvikio.cufile_driver
    import kvikio.defaults

    smoke.version = kvikio.__version__
    smoke.check(f"compatibility mode: {kvikio.defaults.get('compat_mode')!s}",
                kvikio.defaults.get("compat_mode") == kvikio.CompatMode.OFF)
    smoke.check(f"cuFile version seen: {kvikio.cufile_driver.libcufile_version()}",
                kvikio.cufile_driver.libcufile_version() >= (1, 8))
    smoke.attempt("driver_open", kvikio.cufile_driver.driver_open)
    for name in ("poll_mode", "poll_thresh_size", "max_device_cache_size", "max_pinned_memory_size",
                 "allow_compat_mode", "per_buffer_cache_size", "major_version", "minor_version"):
        value = smoke.attempt(f"driver property {name}", lambda: kvikio.cufile_driver.get(name))
        if name in ("poll_thresh_size", "max_device_cache_size", "max_pinned_memory_size") and value is not None:
            smoke.attempt(f"driver property {name} set to {value}", lambda: kvikio.cufile_driver.set(name, value))

    data = harness.content(harness.FILE_SIZE)
    path = smoke.path("data")
    harness.write_file(path, data)
    smoke.attempt("memory_register", lambda: kvikio.memory_register(memory))
    read, written = raw(smoke, kvikio, memory, path, data, 0, 0)
    harness.write_file(path, data)
    read, written = threaded(smoke, kvikio, memory, path, data, read, written)
    read, written = on_stream(smoke, kvikio, memory, path, data, read, written)
    smoke.attempt("memory_deregister", lambda: kvikio.memory_deregister(memory))
    smoke.check_moved(read, written)


harness.run("kvikio", body, {
    "KVIKIO_COMPAT_MODE": "OFF",
    "KVIKIO_GDS_THRESHOLD": "1",  # Smaller requests would go round cuFile.
    "KVIKIO_NTHREADS": "4",
    # Stream-ordered calls want a configuration file to be there, whatever it says.
    "CUFILE_ENV_PATH_JSON": os.path.join(os.path.dirname(os.path.abspath(__file__)), "cufile.json"),
})
