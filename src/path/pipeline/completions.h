// SPDX-License-Identifier: Apache-2.0

// Makes the completion of a chunk whose whole I/O range is moved, for the channels that move such chunks.
#pragma once

#include <algorithm>

#include "path/path.h"

namespace penstock::core {

// The chunk's payload among the first bytes of its I/O range that were moved.
inline std::uint64_t payload_moved(const Chunk& chunk, std::uint64_t moved) {
  const std::uint64_t skipped = chunk.file_offset - chunk.io_offset;
  return moved <= skipped ? 0 : std::min(moved - skipped, chunk.size);
}

// `moved` counts from the start of the I/O range; nothing counts after a failure.
inline Completion completion_of(const Task& task, const Status& status, std::uint64_t moved) {
  return {.cookie = task.cookie,
          .file_offset = task.chunk.file_offset,
          .size = task.chunk.size,
          .bytes = status.ok() ? payload_moved(task.chunk, moved) : 0,
          .status = status,
          .io_mode = task.chunk.io_mode};
}

}  // namespace penstock::core
