// SPDX-License-Identifier: Apache-2.0

#include "kv/volume.h"

#include "checksum/crc32c.h"

namespace penstock::kv {

penstock_request slab_request(penstock_op op, std::uint64_t offset, std::span<const iovec> pieces) {
  penstock_request request{};
  request.struct_size = sizeof request;
  request.op = op;
  request.file_offset = static_cast<std::int64_t>(offset);
  if (pieces.size() == 1) {
    request.base = pieces[0].iov_base;
    request.size = pieces[0].iov_len;
  } else {
    request.pieces = pieces.data();
    request.piece_count = static_cast<std::uint32_t>(pieces.size());
  }
  return request;
}

std::uint64_t bytes_of(std::span<const iovec> pieces) {
  std::uint64_t bytes = 0;
  for (const iovec& piece : pieces) bytes += piece.iov_len;
  return bytes;
}

core::Result<std::vector<std::uint32_t>> checksums(Volume& volume, std::span<const std::span<const iovec>> chunks) {
  std::vector<iovec> pieces;
  for (const std::span<const iovec> chunk : chunks) pieces.insert(pieces.end(), chunk.begin(), chunk.end());
  std::vector<std::uint32_t> sums(pieces.size());
  const core::Status status = volume.crc32c(pieces, sums);
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
