// SPDX-License-Identifier: Apache-2.0

// A plan's input: the bytes that a request moves, and the limits of its path.
#pragma once

#include <cstdint>

#include "core/io.h"

namespace penstock::core {

struct Request {
  Op op = Op::read;
  std::uint64_t file_offset = 0;     // Bytes.
  std::uint64_t buffer_address = 0;  // The first byte to move.
  std::uint64_t size = 0;            // Bytes.
};

struct Limits {
  std::uint32_t file_align = 1;    // Direct I/O needs offset and size in multiples of this; 1: no direct I/O.
  std::uint32_t memory_align = 1;  // Direct I/O in place needs addresses in multiples of this.
  std::uint64_t chunk_max = 0;     // The most bytes of one storage operation; a multiple of file_align and of pages.
  // Bytes go through aligned memory of the library: reads may be widened, and addresses do not matter.
  bool staged = true;
  std::uint32_t page = 4096;  // The unit in which the page cache reads and writes.
};

}  // namespace penstock::core
