# SPDX-License-Identifier: Apache-2.0
"""Rows of a table that a kernel of Numba's gathers by penstock_gpu_read, every byte compared with NumPy's. Needs a GPU,
and the packages numba-cuda, cuda-bindings and torch:

  python bench/gpu_reads/by_numba.py FOLDER

Prints rows/s of 512 bytes by each way. Exits with 1 if a byte was wrong.
"""
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy
import torch
from numba import cuda

import penstock.gpu

ROW, ROWS, COUNT, TURNS = 512, 1 << 20, 200_000, 3
WAYS: dict[str, dict[str, Any]] = {
    "resident": {},
    "by the ring, 8 threads": {"resident_bytes": 0, "threads": 8},
    "cached": {"cache_bytes": 1 << 28, "slot_bytes": ROW},
}


def make_kernel() -> Any:
    """A warp reads each row: all its threads call alike."""
    code = cuda.LTOIR(penstock.gpu.ltoir(torch.cuda.get_device_capability()), name="penstock_gpu_read")
    read = cuda.declare_device("penstock_gpu_read", "int64(uint64, uint64, uint64, uint64)", link=[code])

    @cuda.jit(lto=True)
    def gather(value, rows, row_bytes, out, moved):  # type: ignore[no-untyped-def]
        warp = cuda.grid(1) // 32
        while warp < rows.size:
            moved[warp] = read(value, rows[warp] * row_bytes, row_bytes, out + warp * row_bytes)
            warp += cuda.gridsize(1) // 32

    return gather


def main() -> int:
    random = numpy.random.default_rng(1)
    data = random.integers(0, 256, (ROWS, ROW), dtype=numpy.uint8)
    gather, is_right = make_kernel(), True
    with tempfile.NamedTemporaryFile(dir=Path(sys.argv[1])) as named:
        data.tofile(named.name)
        for way, options in WAYS.items():
            with penstock.open(named.name) as file, penstock.gpu.open(file, **options) as table:
                value = torch.frombuffer(bytearray(table.value()), dtype=torch.uint8).cuda()
                rows = torch.from_numpy(random.integers(0, ROWS, COUNT)).cuda()
                out = torch.empty((COUNT, ROW), dtype=torch.uint8, device="cuda")
                moved = torch.empty(COUNT, dtype=torch.int64, device="cuda")
                for _ in range(TURNS):  # The first one compiles.
                    out.zero_()
                    torch.cuda.synchronize()
                    began = time.perf_counter()
                    gather[512, 256](value.data_ptr(), cuda.as_cuda_array(rows), ROW, out.data_ptr(),
                                     cuda.as_cuda_array(moved))
                    cuda.synchronize()
                    took = time.perf_counter() - began
                    is_same = bool((out.cpu() == torch.from_numpy(data[rows.cpu().numpy()])).all())
                    is_right = is_right and is_same and bool((moved == ROW).all())
                print(f"{way}: {COUNT / took / 1e6:.1f} M rows/s, {'right' if is_right else 'WRONG'}; {table.info()}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
