# SPDX-License-Identifier: Apache-2.0

"""cufile-python on our library: a ctypes binding, which LMCache uses. It opens "libcufile.so", without a number."""

import ctypes
import os
import sys
from importlib import metadata

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import harness


def body(smoke):
    memory = harness.new_memory(smoke)
    smoke.version = metadata.version("cufile-python")
    from cufile import CuFile

    data = harness.content(harness.FILE_SIZE)
    path = smoke.path("data")
    harness.write_file(path, data)
    address = ctypes.c_void_p(memory.address)
    read = written = 0
    for direct in (False, True):
        with CuFile(path, "r", use_direct_io=direct) as file:
            label = "read, O_DIRECT" if direct else "read"
            read += harness.check_reads(
                smoke, label, memory, data, lambda size, at, to: file.read(address, size, at, to))
    with CuFile(path, "r+") as file:
        written = harness.check_writes(
            smoke, "write", memory, path, lambda size, at, to: file.write(address, size, at, to))
    smoke.check_moved(read, written)


def environment(library):
    """The directory of our library has the libcufile.so that the client asks for."""
    return {"LD_LIBRARY_PATH": harness.prepend("LD_LIBRARY_PATH", os.path.dirname(library))}


harness.run("cufile-python", body, environment)
