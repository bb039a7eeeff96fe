// SPDX-License-Identifier: Apache-2.0

// For the paths that move bytes by storage's own reads and writes: their verdict, and the alignment that they plan
// with.
#pragma once

#include "path/path.h"
#include "storage/storage.h"

namespace penstock::core {

// A usable verdict, which also says if io_uring is available.
Verdict usable_with_rings(PathId path, FileIo& io);
// The direct-I/O alignment to plan with: 1 if direct I/O is not wanted, or impossible in chunks of this size.
std::uint32_t file_align_for(File& file, IoMode io_mode, std::uint64_t chunk_max);
// Prepares a request that goes through bounce buffers, for which any memory will do.
Shape shape_staged(const RoutedRequest& request, IoMode io_mode);

}  // namespace penstock::core
