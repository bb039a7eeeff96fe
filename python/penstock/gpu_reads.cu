// SPDX-License-Identifier: Apache-2.0

// The device code of penstock.gpu, which NVRTC compiles where it is used.
#include "penstock/gpu.cuh"

using namespace penstock::gpu;

#ifndef PENSTOCK_GPU_ROWS

// A read by a whole warp, all of whose threads call it with the same arguments. `moved`: the bytes that were read, or
// an Error as a number below 0. In the form in which Numba calls functions: what a call gives comes first, and what it
// returns is 0.
extern "C" __device__ int penstock_gpu_read(long long* moved, const File* file, Long offset, Long bytes,
                                            void* destination) {
  const Result result = file->read(Warp(), offset, bytes, destination);
  *moved = result.error == Error::none ? static_cast<long long>(result.bytes) : -static_cast<long long>(result.error);
  return 0;
}

#else

// Gathers rows, one after the other in each warp. `failed`: how many could not be read as a whole.
extern "C" __global__ void __launch_bounds__(256, 2)
    penstock_gpu_rows(File file, const long long* rows, Long count, Long row_bytes, unsigned char* out,
                      unsigned long long* failed) {
  const Warp warp;
  const Long step = gridDim.x * (blockDim.x / 32);
  const Long end = file.size() / row_bytes;
  for (Long i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; i < count; i += step) {
    const Long row = rows[i];
    Result result;
    if (row < end) result = file.read(warp, row * row_bytes, row_bytes, out + i * row_bytes);
    if (result.bytes != row_bytes && warp.thread_rank() == 0) atomicAdd(failed, 1ull);
  }
}

#endif
