// SPDX-License-Identifier: Apache-2.0

#include "kv/drive.h"

#include "checksum/crc32c.h"

namespace penstock::kv {

std::uint64_t bytes_of(std::span<const iovec> pieces) {
  std::uint64_t bytes = 0;
  for (const iovec& piece : pieces) bytes += piece.iov_len;
  return bytes;
}

core::Result<std::vector<std::uint32_t>> checksums(Drive& drive, std::span<const std::span<const iovec>> chunks) {
  std::vector<iovec> pieces;
  for (const std::span<const iovec> chunk : chunks) pieces.insert(pieces.end(), chunk.begin(), chunk.end());
  std::vector<std::uint32_t> sums(pieces.size());
  const core::Status status = drive.crc32c(pieces, sums);
  if (!status.ok()) return status;
  std::vector<std::uint32_t> all(chunks.size());
  core::Crc32cCombiner combine;
  std::size_t at = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    for (const iovec& piece : chunks[i]) all[i] = combine(all[i], sums[at++], piece.iov_len);
  }
  return all;
}

}  // namespace penstock::kv
