// SPDX-License-Identifier: Apache-2.0

#include "frontend/vectored.h"

#include <limits>

#include "base/page_size.h"
#include "frontend/call.h"

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
  PiecesProgress progress(request);
  each_piece(request, pieces, [&](const RawRequest& piece) {
    progress.take_in(piece, transfer(session, piece));
    return progress.goes_on();
  });
  return progress.outcome();
}

void PiecesProgress::take_in(const RawRequest& piece, Outcome outcome) {
  const auto begin = static_cast<std::uint64_t>(piece.file_offset);
  Report& report = outcome.report;
  if (begin == progress_.begin()) first_ = report;
  if (report.path == PathId::bounce) {
    report.bounced_bytes = report.bytes;
    report.bounced_reason = report.reason;
  }
  progress_.take_in(begin, piece.size, outcome);
}

Outcome PiecesProgress::outcome() const {
  Outcome outcome{progress_.status(), first_};
  progress_.tell(outcome.report);
  if (first_.path == PathId::bounce) {
    outcome.report = first_;  // tell() would also count bytes that went by another path than the first piece's.
    outcome.report.bytes = progress_.bytes();
    outcome.report.direct_bytes = progress_.direct_bytes();
  }
  return outcome;
}

// Two pieces of a write that meet within a page are not moved at the same time: one of them may go through the page
// cache, which writes whole pages and might restore the old bytes of the other.
VectoredJob::VectoredJob(Executor& executor, Job& whole, std::span<const MemoryPiece> pieces)
    : executor_(executor), whole_(whole), pieces_(pieces.begin(), pieces.end()), progress_(whole.request) {
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
  unfinished_ = parts_.size();
  whole.parts = first_;
  whole.pieces = pieces_;
}

void VectoredJob::complete(Part& part, const Outcome& outcome) {
  Part* next = part.next;
  {
    const MutexLock lock(mutex_);
    progress_.take_in(part.request, outcome);
    --unfinished_;
    // A piece does not begin if the piece that it waits for came out short.
    const bool is_whole = outcome.status.ok() && outcome.report.bytes == part.request.size;
    for (; !is_whole && next != nullptr; next = next->next) --unfinished_;
    if (next == nullptr && unfinished_ > 0) return;
  }
  if (next == nullptr) {
    mutex_.assume_held();  // No other thread works on it any more. finish() may destroy this.
    return whole_.finish(progress_.outcome());
  }
  Job* const one = next;
  if (const Status status = executor_.enqueue({&one, 1}); !status.ok()) complete(*next, {status, {}});
}

}  // namespace penstock::core
