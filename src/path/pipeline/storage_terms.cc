// SPDX-License-Identifier: Apache-2.0

#include "path/pipeline/storage_terms.h"

#include <cerrno>

#include "base/align.h"

namespace penstock::core {

Verdict usable_with_rings(PathId path, FileIo& io) {
  switch (const int error = io.io_uring_error()) {
    case 0: return usable(path);
    case ECANCELED: return usable(path, Reason::io_uring_off);
    default: return usable(path, Reason::io_uring_forbidden, error);
  }
}

std::uint32_t file_align_for(File& file, IoMode io_mode, std::uint64_t chunk_max) {
  if (io_mode != IoMode::o_direct) return 1;
  const std::uint32_t align = file.direct_offset_align();
  return is_aligned(chunk_max, align) ? align : 1;
}

Shape shape_staged(const RoutedRequest& request, IoMode io_mode) {
  return {.limits = {.file_align = file_align_for(*request.file, io_mode, request.chunk_max),
                     .memory_align = 1,
                     .chunk_max = request.chunk_max,
                     .staged = true},
          .tune_threads = true};
}

}  // namespace penstock::core
