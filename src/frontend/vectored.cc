// SPDX-License-Identifier: Apache-2.0

#include "frontend/vectored.h"

#include <limits>

#include "base/page_size.h"
#include "frontend/transfer.h"

namespace penstock::core {
namespace {

// Calls `take` with each piece that is not empty, as a request of its own, until it returns false.
template <typename Take>
void each_piece(RawRequest piece, std::span<const MemoryPiece> pieces, Take take) {
  for (const MemoryPiece& memory : pieces) {
    if (memory.iov_len == 0) continue;
    piece.base = memory.iov_base;
    piece.size = memory.iov_len;
    if (!take(piece)) return;
    piece.file_offset += static_cast<std::int64_t>(memory.iov_len);
  }
}

}  // namespace

Status admit_pieces(RawRequest& request, std::span<const MemoryPiece> pieces) {
  const char* const step = transfer_step(request.op);
  if (request.file_offset < 0) return failure(Code::negative_offset, step);
  if (pieces.size() > kPiecesMax) return failure(Code::invalid_argument, step);
  std::uint64_t room = std::numeric_limits<std::int64_t>::max() - static_cast<std::uint64_t>(request.file_offset);
  std::uint64_t size = 0;
  for (const MemoryPiece& piece : pieces) {
    const bool is_nowhere = piece.iov_base == nullptr && piece.iov_len > 0;
    if (piece.iov_len > room || is_nowhere) return failure(Code::invalid_argument, step);
    room -= piece.iov_len;
    size += piece.iov_len;
  }
  // A request of no bytes looks at the base, but not at the memory there.
  request = {
      .op = request.op, .file = request.file, .base = pieces.data(), .size = size, .file_offset = request.file_offset};
  return success();
}

Outcome transfer_vectored(Session& session, RawRequest request, std::span<const MemoryPiece> pieces) {
  if (const Status status = admit_pieces(request, pieces); !status.ok()) return {status, {}};
  if (request.size == 0) return transfer(session, request);
  if (const auto outcome = transfer_together(session, request, pieces)) return *outcome;
  PartsProgress progress(static_cast<std::uint64_t>(request.file_offset), request.size, pieces.size());
  each_piece(request, pieces, [&](const RawRequest& piece) {
    progress.add(static_cast<std::uint64_t>(piece.file_offset), piece.size, transfer(session, piece));
    return progress.goes_on();
  });
  return progress.outcome();
}

// Two pieces of a write that meet within a page are not moved at the same time: one of them may go through the page
// cache, which writes whole pages and might restore the old bytes of the other.
VectoredJob::VectoredJob(Executor& executor, Job& whole, std::span<const MemoryPiece> pieces)
    : executor_(executor), whole_(whole), pieces_(pieces.begin(), pieces.end()) {
  parts_.reserve(pieces.size());
  first_.reserve(pieces.size());
  each_piece(whole.request, pieces, [&](const RawRequest& piece) {
    Part* const before = parts_.empty() ? nullptr : &parts_.back();
    Part& part = parts_.emplace_back();
    part.request = piece;
    part.vectored = this;
    const bool waits = piece.op == Op::write && static_cast<std::uint64_t>(piece.file_offset) % page_size() != 0;
    if (before != nullptr && waits) before->next = &part;
    else first_.push_back(&part);
    return true;
  });
  progress_ = PartsProgress(static_cast<std::uint64_t>(whole.request.file_offset), whole.request.size, parts_.size());
  whole.parts = first_;
  whole.pieces = pieces_;
}

void VectoredJob::complete(Part& part, const Outcome& outcome) {
  Part* next = part.next;
  {
    const MutexLock lock(mutex_);
    progress_.add(static_cast<std::uint64_t>(part.request.file_offset), part.request.size, outcome);
    // A piece does not begin if the piece that it waits for came out short.
    const bool is_whole = outcome.status.ok() && outcome.report.bytes == part.request.size;
    for (; !is_whole && next != nullptr; next = next->next) progress_.leave_out();
    if (next == nullptr && !progress_.is_over()) return;
  }
  if (next == nullptr) {
    mutex_.assume_held();  // All parts have ended: no other thread uses progress_. complete() may destroy this.
    return whole_.complete(progress_.outcome());
  }
  Job* const one = next;
  if (const Status status = executor_.enqueue({&one, 1}); !status.ok()) complete(*next, {status, {}});
}

}  // namespace penstock::core
