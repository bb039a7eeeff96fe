// SPDX-License-Identifier: Apache-2.0

// cuFileReadv and cuFileWritev: one range of the file, over several pieces of memory. NVIDIA's library has them from
// 1.19 on. Here as there a call without pieces is refused, and flags have no effect; but NVIDIA's also refuses a
// thousand pieces, and an empty piece without an address.
#include <cerrno>
#include <limits>

#include "cufile.h"
#include "cufile/entry_points.h"
#include "cufile/stats.h"

namespace core = penstock::core;

namespace {

using core::entry_points::driver;
using core::entry_points::fail;
using core::entry_points::file_of;

constexpr size_t kPiecesMax = 1024;  // IOV_MAX of Linux.

// All pieces are checked before any byte moves.
bool are_sane(const CUfileIOVec_t* iov, size_t count) {
  if (count == 0 || count > kPiecesMax || iov == nullptr) return false;
  size_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    if (iov[i].base == nullptr && iov[i].len > 0) return false;
    if (iov[i].len > static_cast<size_t>(std::numeric_limits<ssize_t>::max()) - sum) return false;
    sum += iov[i].len;
  }
  return true;
}

// Stops at the first short transfer; an error after the first bytes becomes a short count.
ssize_t move_pieces(core::Op op, CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t count, off_t file_offset,
                    bool counted_together) {
  if (fh == nullptr || file_offset < 0 || !are_sane(iov, count)) return fail(EINVAL);
  ssize_t done = 0;
  for (size_t i = 0; i < count; ++i) {
    if (iov[i].len == 0) continue;
    if (file_offset > std::numeric_limits<off_t>::max() - done) return done > 0 ? done : fail(EINVAL);
    const ssize_t moved =
        core::entry_points::transfer({op, file_of(fh), iov[i].base, iov[i].len, file_offset + done}, counted_together);
    if (moved < 0) return done > 0 ? done : -1;
    done += moved;
    if (static_cast<size_t>(moved) < iov[i].len) break;
  }
  return done;
}

// 1.15's statistics have no place for vectored transfers, so there each piece counts as a transfer.
ssize_t transfer_pieces(core::Op op, CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t count, off_t file_offset) {
  const auto transfer = [&] {
    const core::CufileDriver::Use use(driver());
    const bool counted_together = use && driver().follows_1_20();
    const std::uint64_t began = counted_together ? core::stats_clock(use.session()) : 0;
    const ssize_t moved = move_pieces(op, fh, iov, count, file_offset, counted_together);
    if (counted_together) core::count_vectored(use.session(), op, moved, began);
    return moved;
  };
  return core::boundary(transfer, [] { return fail(ENOMEM); });
}

}  // namespace

extern "C" {

ssize_t cuFileReadv(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t iovcnt, off_t file_offset, unsigned) {
  return transfer_pieces(core::Op::read, fh, iov, iovcnt, file_offset);
}

ssize_t cuFileWritev(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t iovcnt, off_t file_offset, unsigned) {
  return transfer_pieces(core::Op::write, fh, iov, iovcnt, file_offset);
}

}  // extern "C"
