#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""What `penstock run --report` costs a load: the same program under `penstock run` without and with it, in turns.

    bench/run_overhead.py PENSTOCK FILE [--passes 4] [--pairs 10] [--bs MIB]

The program reads FILE by cuFileRead, so many times, into a GPU's memory, or into the host's where there is no GPU.
Prints the ratios with over without of wall time and of CPU time: median, lowest, highest.
"""

import argparse
import ctypes
import os
import resource
import statistics
import subprocess
import sys
import time

MIB = 1 << 20


class Error(ctypes.Structure):
    _fields_ = [("err", ctypes.c_int), ("cu_err", ctypes.c_int)]


class Handle(ctypes.Union):
    _fields_ = [("fd", ctypes.c_int), ("handle", ctypes.c_void_p)]


class Description(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle", Handle), ("ops", ctypes.c_void_p)]


def device_memory(size):
    """The address of so much memory of GPU 0; of the host's where there is no driver."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        device_memory.kept = ctypes.create_string_buffer(size)
        return ctypes.addressof(device_memory.kept)
    context, address = ctypes.c_void_p(), ctypes.c_uint64()
    calls = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
             cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))]
    if any(calls):
        sys.exit(f"no memory of GPU 0: {calls}")
    return address.value


def load(file, passes, block):
    cufile = ctypes.CDLL("libcufile.so.0")
    cufile.cuFileDriverOpen.restype = cufile.cuFileHandleRegister.restype = Error
    cufile.cuFileRead.restype = ctypes.c_ssize_t
    cufile.cuFileRead.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_int64]
    size, memory = os.path.getsize(file), device_memory(block)
    description, handle = Description(1, Handle(fd=os.open(file, os.O_RDONLY)), None), ctypes.c_void_p()
    failed = cufile.cuFileDriverOpen().err or cufile.cuFileHandleRegister(ctypes.byref(handle),
                                                                           ctypes.byref(description)).err
    if failed:
        sys.exit(f"cuFile: error {failed}")
    for _ in range(passes):
        for at in range(0, size, block):
            wanted = min(block, size - at)
            if cufile.cuFileRead(handle, memory, wanted, at, 0) != wanted:
                sys.exit(f"cuFileRead at {at} failed")


def costs(words):
    """(wall, CPU) in seconds, of the program and what watches it."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([str(word) for word in words], stderr=subprocess.PIPE, text=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool")
    parser.add_argument("file")
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--bs", type=int, default=16, help="MiB of one cuFileRead")
    parser.add_argument("--library", help="libcufile.so.0, where it is not installed beside the tool")
    parser.add_argument("--as-program", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_program:
        return load(options.file, options.passes, options.bs * MIB)
    program = [sys.executable, __file__, "--as-program", options.tool, options.file, "--passes", options.passes,
               "--bs", options.bs]
    library = ["--library", options.library] if options.library else []
    ways = {"without": [options.tool, "run", *library, *program],
            "with": [options.tool, "run", *library, "--report", *program]}
    costs(ways["without"])  # Brings the file into the page cache.
    ratios = []
    for number in range(options.pairs):
        found = {name: costs(ways[name]) for name in sorted(ways, reverse=number % 2 == 0)}
        ratios.append([found["with"][i] / found["without"][i] for i in range(2)])
    for i, name in enumerate(["wall", "CPU"]):
        values = [ratio[i] for ratio in ratios]
        print(f"{name}: with/without {statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f}), "
              f"{options.pairs} pairs of {found['without'][0]:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
