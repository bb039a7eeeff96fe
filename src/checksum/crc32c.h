// SPDX-License-Identifier: Apache-2.0

// CRC32C (the Castagnoli polynomial, as iSCSI and ext4 use it: RFC 3720, appendix B.4) of bytes in host memory. Uses
// the processor's instruction if it has one, at several bytes a cycle. The checksums of two adjacent pieces
// can be combined into the checksum of both, so any number of threads may share the work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::core {

// Returns the checksum of `bytes` appended to bytes with the checksum `before`; the checksum of no bytes is 0.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

// Returns the checksum of two pieces together: `second` is that of the `second_bytes` behind the first.
std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

// Does the same for many pieces; it costs less if a piece is as large as the one before.
class Crc32cCombiner {
 public:
  std::uint32_t operator()(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

 private:
  std::uint64_t bytes_ = 0;
  std::uint32_t shift_ = 0x80000000;  // x^(8 * bytes_).
};

std::uint32_t crc32c_of_zeros(std::uint64_t bytes);

// Does the same as crc32c() with tables only, for machines without the instruction.
std::uint32_t crc32c_by_tables(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace penstock::core
