#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""What a call costs: File.read of 4 KiB on the null path, which moves nothing, for each kind of buffer.

    calls.py [--turns 3] [--c build/release/bench/calls]

In turn with the same loop in C (calls.c), a program of the same build. A figure is microseconds a call, the median of
the turns, each the best of nine rounds of 20,000 calls.
"""

import argparse
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy

import penstock

CALLS, ROUNDS, SIZE = 20_000, 9, 4096


class OnlyDLPack:
    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def best(call):
    least = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        least = min(least, (time.perf_counter() - begin) / CALLS)
    return least * 1e6


def calls_of(file):
    array = numpy.zeros(SIZE, numpy.uint8)
    plain, pointer, packed = bytearray(SIZE), penstock.Pointer(array.ctypes.data, SIZE, array), OnlyDLPack(array)
    calls = {"bytearray": lambda: file.read(plain), "numpy": lambda: file.read(array),
             "penstock.Pointer": lambda: file.read(pointer), "DLPack": lambda: file.read(packed)}
    try:
        import torch
    except ImportError:
        return calls
    tensor = torch.zeros(SIZE, dtype=torch.uint8)
    calls["torch, CPU"] = lambda: file.read(tensor)
    if torch.cuda.is_available():
        there = torch.zeros(SIZE, dtype=torch.uint8, device="cuda")
        calls["torch, GPU, no order"] = lambda: file.read(there, stream=-1)
        calls["torch, GPU, in order"] = lambda: file.read(there)
    return calls


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--c", type=Path)
    said = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(bytes(SIZE))
        with penstock.Session(paths="null", require="null") as session, session.open(path) as file:
            for _ in range(said.turns):
                if said.c:
                    done = subprocess.run([said.c, path], check=True, capture_output=True, text=True)
                    for kind, figure in zip(("C, host memory", "C, device memory"), done.stdout.split()):
                        found.setdefault(kind, []).append(float(figure))
                for kind, call in calls_of(file).items():
                    found.setdefault(kind, []).append(best(call))
    for kind, figures in found.items():
        print(f"{kind:22} {statistics.median(figures):6.2f} us [{min(figures):.2f} {max(figures):.2f}]")


if __name__ == "__main__":
    main()
