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

std::vector<Moved> Volume::transfer(std::span<penstock_request> requests) {
  std::vector<Moved> all(requests.size());
  transfer_each(requests, [&](std::span<const EndedRequest> ended) {
    for (const EndedRequest& each : ended) all[each.request] = each.moved;
  });
  return all;
}

core::Result<std::vector<std::uint32_t>> checksums(Volume& volume, std::span<Request* const> requests) {
  std::vector<iovec> pieces;
  for (const Request* const one : requests) {
    if (!one->is_host) pieces.insert(pieces.end(), one->pieces.begin(), one->pieces.end());
  }
  std::vector<std::uint32_t> sums(pieces.size());
  const core::Status status = pieces.empty() ? core::success() : volume.crc32c(pieces, sums);
  if (!status.ok()) return status;
  std::vector<std::uint32_t> all(requests.size());
  core::Crc32cCombiner combine;
  auto next = sums.begin();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    for (const iovec& piece : requests[i]->pieces) {
      all[i] = requests[i]->is_host
                   ? core::crc32c({static_cast<const std::byte*>(piece.iov_base), piece.iov_len}, all[i])
                   : combine(all[i], *next++, piece.iov_len);
    }
  }
  return all;
}

}  // namespace penstock::kv
