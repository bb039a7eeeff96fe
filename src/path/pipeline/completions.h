// SPDX-License-Identifier: Apache-2.0

// A chunk as channels keep it from its submission to its completion, and the completion of one whose whole I/O range is
// moved.
#pragma once

#include <algorithm>

#include "path/path.h"

namespace penstock::core {

// The arguments of Channel::submit(), a base of each channel's slots.
struct Submitted {
  // Field by field: a new one in its place would be made elsewhere first.
  void take(const RoutedRequest& its_request, const Chunk& its_chunk, std::uint64_t its_cookie) {
    request = &its_request;
    chunk = its_chunk;
    cookie = its_cookie;
  }

  const RoutedRequest* request = nullptr;
  Chunk chunk;
  std::uint64_t cookie = 0;
};

// The chunk's payload among the first bytes of its I/O range that were moved.
inline std::uint64_t payload_moved(const Chunk& chunk, std::uint64_t moved) {
  const std::uint64_t skipped = chunk.file_offset - chunk.io_offset;
  return moved <= skipped ? 0 : std::min(moved - skipped, chunk.size);
}

// `moved` counts from the start of the I/O range; nothing counts after a failure.
inline Completion completion_of(const Chunk& chunk, const Status& status, std::uint64_t moved,
                                std::uint64_t cookie = 0) {
  return {.cookie = cookie,
          .file_offset = chunk.file_offset,
          .size = chunk.size,
          .bytes = status.ok() ? payload_moved(chunk, moved) : 0,
          .status = status,
          .io_mode = chunk.io_mode};
}

}  // namespace penstock::core
