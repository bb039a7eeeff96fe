# SPDX-License-Identifier: Apache-2.0
"""Rows of a table that kernels of Numba's and CuPy's gather, every byte compared with NumPy's. Needs a GPU, torch, and
the packages numba-cuda and cuda-bindings, or cupy:

  python bench/gpu_reads/by_python.py {numba,cupy} FOLDER

Prints rows/s of 512 bytes by each way. Exits with 1 if a byte was wrong.
"""
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import torch

import penstock.gpu

ROW, ROWS, COUNT, TURNS = 512, 1 << 20, 200_000, 3
WAYS: dict[str, dict[str, Any]] = {
    "resident": {},
    "by the ring, 8 threads": {"resident_bytes": 0, "threads": 8},
    "cached": {"cache_bytes": 1 << 28, "slot_bytes": ROW},
}
# gather(value, rows, out, moved): `value` is the file's, `moved` has the bytes of each row, or an error below 0.
Gather = Callable[[bytes, torch.Tensor, torch.Tensor, torch.Tensor], None]

CUDA = """
#include <penstock/gpu.cuh>
extern "C" __global__ void gather(penstock::gpu::File file, const long long* rows, long long count, long long row,
                                  unsigned char* out, long long* moved) {
  const penstock::gpu::Warp warp;
  for (long long i = (blockIdx.x * blockDim.x + threadIdx.x) / 32; i < count; i += gridDim.x * blockDim.x / 32) {
    const auto read = file.read(warp, rows[i] * row, row, out + i * row);
    if (threadIdx.x % 32 == 0) moved[i] = read.error == penstock::gpu::Error::none ? (long long)read.bytes : -1;
  }
}
"""


def with_numba() -> Gather:
    """A warp reads each row: all its threads call alike. The file's value lies in GPU memory."""
    from numba import cuda

    code = cuda.LTOIR(penstock.gpu.ltoir(torch.cuda.get_device_capability()), name="penstock_gpu_read")
    read = cuda.declare_device("penstock_gpu_read", "int64(uint64, uint64, uint64, uint64)", link=[code])

    @cuda.jit(lto=True)
    def kernel(value, rows, row_bytes, out, moved):  # type: ignore[no-untyped-def]
        warp = cuda.grid(1) // 32
        while warp < rows.size:
            moved[warp] = read(value, rows[warp] * row_bytes, row_bytes, out + warp * row_bytes)
            warp += cuda.gridsize(1) // 32

    def gather(value: bytes, rows: torch.Tensor, out: torch.Tensor, moved: torch.Tensor) -> None:
        there = torch.frombuffer(bytearray(value), dtype=torch.uint8).cuda()
        kernel[512, 256](there.data_ptr(), cuda.as_cuda_array(rows), ROW, out.data_ptr(), cuda.as_cuda_array(moved))
        cuda.synchronize()

    return gather


def with_cupy() -> Gather:
    """The file's value is the kernel's first argument."""
    import cupy

    options = ("--std=c++17", f"-I{penstock.gpu.include()}")
    kernel = cupy.RawModule(code=CUDA, options=options).get_function("gather")
    as_argument = numpy.dtype([("words", numpy.uint64, 16)])

    def gather(value: bytes, rows: torch.Tensor, out: torch.Tensor, moved: torch.Tensor) -> None:
        arguments = (numpy.frombuffer(value, dtype=as_argument)[0], cupy.asarray(rows), numpy.int64(COUNT),
                     numpy.int64(ROW), cupy.asarray(out), cupy.asarray(moved))
        kernel((512,), (256,), arguments)
        cupy.cuda.Device().synchronize()

    return gather


def main() -> int:
    gather = {"numba": with_numba, "cupy": with_cupy}[sys.argv[1]]()
    random = numpy.random.default_rng(1)
    data = random.integers(0, 256, (ROWS, ROW), dtype=numpy.uint8)
    is_right = True
    with tempfile.NamedTemporaryFile(dir=Path(sys.argv[2])) as named:
        data.tofile(named.name)
        for way, options in WAYS.items():
            with penstock.open(named.name) as file, penstock.gpu.open(file, **options) as table:
                rows = torch.from_numpy(random.integers(0, ROWS, COUNT)).cuda()
                out = torch.empty((COUNT, ROW), dtype=torch.uint8, device="cuda")
                moved = torch.empty(COUNT, dtype=torch.int64, device="cuda")
                for _ in range(TURNS):  # The first one compiles, or fills the cache.
                    out.zero_()
                    torch.cuda.synchronize()
                    began = time.perf_counter()
                    gather(table.value(), rows, out, moved)
                    took = time.perf_counter() - began
                    is_same = bool((out.cpu() == torch.from_numpy(data[rows.cpu().numpy()])).all())
                    is_right = is_right and is_same and bool((moved == ROW).all())
                print(f"{way}: {COUNT / took / 1e6:.1f} M rows/s, {'right' if is_right else 'WRONG'}; {table.info()}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
