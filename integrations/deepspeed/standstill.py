# SPDX-License-Identifier: Apache-2.0

"""The smallest program that DeepSpeed's gds_handle stands still in: sixteen reads, one wait, and that again.

The tensors are in host memory, so no byte comes by cuFile and whose libcufile is loaded makes no difference. A round
that takes a minute ends the program with exit code 1 and the line of Python that it stood in.
"""

import faulthandler
import os
import sys
import tempfile

import setuptools  # noqa: F401  # Brings the distutils that DeepSpeed imports, which Python 3.12 has no more.
import torch
from deepspeed.ops.op_builder import GDSBuilder

READS, SIZE = 16, 1 << 16


def read_once(handle):
    """The thread of the handle lets go of a tensor while wait() holds Python's lock for the next one."""
    tensors = [torch.zeros(SIZE, dtype=torch.uint8) for _ in range(READS)]
    for index, tensor in enumerate(tensors):
        assert handle.async_pread(tensor, f"data{index}", 0) == 0
    assert handle.wait() == READS


def main(rounds):
    handle = GDSBuilder().load(verbose=False).gds_handle(SIZE, 2, True, True, 1)
    for index in range(READS):
        with open(f"data{index}", "wb") as file:
            file.write(os.urandom(SIZE))
    for number in range(rounds):
        print(f"\rround {number}", end="", flush=True)
        faulthandler.dump_traceback_later(60, exit=True)
        read_once(handle)
    faulthandler.cancel_dump_traceback_later()
    print(f"\nOK: {rounds} rounds")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
