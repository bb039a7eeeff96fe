// SPDX-License-Identifier: Apache-2.0

// Two types that every room uses: read or write, and the I/O mode.
#pragma once

#include <cstdint>

namespace penstock::core {

enum class Op : std::uint8_t { read, write };

enum class IoMode : std::uint8_t {
  buffered,  // Through the page cache.
  o_direct,  // O_DIRECT.
};

constexpr const char* op_name(Op op) { return op == Op::read ? "read" : "write"; }
constexpr const char* io_mode_name(IoMode io_mode) { return io_mode == IoMode::o_direct ? "direct" : "buffered"; }

}  // namespace penstock::core
