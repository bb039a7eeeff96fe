// SPDX-License-Identifier: Apache-2.0

// cuFileReadv and cuFileWritev: one range of the file, over several pieces of memory. NVIDIA's library has them from
// 1.19 on; the unpublished parts (flags, limits, partial results) follow readv(2).
#include <cerrno>
#include <limits>

#include "cufile.h"
#include "cufile/entry_points.h"

namespace {

using penstock::core::entry_points::fail;

constexpr size_t kPiecesMax = 1024;  // IOV_MAX of Linux.

// All pieces are checked before any byte moves.
bool are_sane(const CUfileIOVec_t* iov, size_t count) {
  if (count > kPiecesMax || (iov == nullptr && count > 0)) return false;
  size_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    if (iov[i].base == nullptr && iov[i].len > 0) return false;
    if (iov[i].len > static_cast<size_t>(std::numeric_limits<ssize_t>::max()) - sum) return false;
    sum += iov[i].len;
  }
  return true;
}

// Stops at the first short transfer; an error after the first bytes becomes a short count.
template <typename Move>
ssize_t move_pieces(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t count, off_t file_offset, unsigned flags,
                    Move move) {
  if (fh == nullptr || flags != 0 || !are_sane(iov, count)) return fail(EINVAL);
  if (file_offset < 0) return fail(CU_FILE_INVALID_VALUE);
  ssize_t done = 0;
  for (size_t i = 0; i < count; ++i) {
    if (iov[i].len == 0) continue;
    if (file_offset > std::numeric_limits<off_t>::max() - done) return done > 0 ? done : fail(EINVAL);
    const ssize_t moved = move(fh, iov[i].base, iov[i].len, file_offset + done, 0);
    if (moved < 0) return done > 0 ? done : -1;
    done += moved;
    if (static_cast<size_t>(moved) < iov[i].len) break;
  }
  return done;
}

}  // namespace

extern "C" {

ssize_t cuFileReadv(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t iovcnt, off_t file_offset, unsigned flags) {
  return move_pieces(fh, iov, iovcnt, file_offset, flags, cuFileRead);
}

ssize_t cuFileWritev(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t iovcnt, off_t file_offset, unsigned flags) {
  return move_pieces(fh, iov, iovcnt, file_offset, flags, cuFileWrite);
}

}  // extern "C"
