// SPDX-License-Identifier: Apache-2.0

// Shared by the paths that move bytes by storage's own reads and writes: their verdict, and the alignment they plan
// with.
#pragma once

#include "path/path.h"
#include "storage/storage.h"

namespace penstock::core {

// Usable, and whether io_uring is there.
Verdict usable_with_rings(PathId path, FileIo& io);
// The direct-I/O alignment to plan with: 1 where it is not wanted, or not to be had in chunks of this size.
std::uint32_t file_align_for(File& file, IoMode io_mode, std::uint64_t chunk_max);
// A request by bounce buffers: any memory will do.
Prepared prepare_staged(const RoutedRequest& request, IoMode io_mode);

}  // namespace penstock::core
