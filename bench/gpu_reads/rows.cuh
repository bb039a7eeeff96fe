// SPDX-License-Identifier: Apache-2.0

// Rows of a table in a file, for instance of embeddings, gathered by a kernel. Compiled for a GPU and for the host.
#pragma once

#include "penstock/gpu.cuh"

namespace penstock::examples {

// Gathers every step-th row from the first on. Returns how many could not be read.
template <typename Group>
PENSTOCK_GPU_INLINE unsigned gather_rows(const Group& group, const gpu::File& table, unsigned row_bytes,
                                         const unsigned* rows, unsigned count, unsigned first, unsigned step,
                                         unsigned char* out) {
  unsigned failed = 0;
  for (gpu::Long i = first; i < count; i += step) {
    const gpu::Result result = table.read(group, gpu::Long{rows[i]} * row_bytes, row_bytes, out + i * row_bytes);
    if (result.error != gpu::Error::none || result.bytes != row_bytes) ++failed;
  }
  return failed;
}

}  // namespace penstock::examples
