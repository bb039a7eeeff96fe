// SPDX-License-Identifier: Apache-2.0

#include "frontend/stream_loan.h"

#include "frontend/admission.h"
#include "stats/usage.h"

namespace penstock::core {

StreamLoan::Lender StreamLoan::find_lender(Session& session, const StreamHome& home, const RawRequest& request) {
  const Device* const device = request.memory->needs_device() ? request.memory->device : nullptr;
  const bool is_read_of_device = request.op == Op::read && device != nullptr;
  if (!is_read_of_device || request.size < kBytesMin || !home.reaches_pages_of(*device)) return {};
  return of_pinned_file(session, request, [&](File& file) {
    Flight flight;
    return admit_and_route(session, request, &file, flight).ok() ? Lender{flight.path, flight.report} : Lender();
  });
}

void StreamLoan::reset(const Lender& lender) {
  lender_ = lender;
  pieces_.clear();
}

bool StreamLoan::borrow_whole(Session& session, const RawRequest& read) {
  const bool is_lent = unless_short_of_memory([&] { return borrow_pieces(session, read); }, [] { return false; });
  if (is_lent) count(session, read);
  else pieces_.clear();
  return is_lent;
}

bool StreamLoan::borrow_pieces(Session& session, RawRequest rest) {
  while (rest.size > 0) {
    const std::span<const std::byte> bytes = lend(session, rest);
    if (bytes.empty() || pieces_.size() == kPiecesMax) return false;
    pieces_.push_back(bytes);
    rest.size -= bytes.size();
    rest.file_offset += static_cast<std::int64_t>(bytes.size());
    rest.buffer_offset += static_cast<std::int64_t>(bytes.size());
  }
  return true;
}

Status StreamLoan::copy(StreamWork& work, void* stream, const StreamBlock& block, const RawRequest& read) const {
  std::uint64_t to = reinterpret_cast<std::uintptr_t>(read.base) + static_cast<std::uint64_t>(read.buffer_offset);
  Status status;
  for (const std::span<const std::byte> piece : pieces_) {
    const StreamCopy what{to, reinterpret_cast<std::uintptr_t>(piece.data()), piece.size()};
    if (status.ok()) status = work.copy_at_once(stream, block, what);
    to += piece.size();
  }
  return status;
}

const std::byte* StreamLoan::borrow_part(Session& session, const RawRequest& part) {
  const std::span<const std::byte> bytes = lend(session, part);
  if (bytes.size() == part.size) count(session, part);
  else before_move(session, part);
  return bytes.size() == part.size ? bytes.data() : nullptr;
}

Outcome StreamLoan::outcome_of(std::uint64_t bytes) const {
  Outcome outcome{success(), lender_.report};
  outcome.report.bytes = bytes;
  return outcome;
}

// The first bytes of the read, or none. Has no effect.
std::span<const std::byte> StreamLoan::lend(Session& session, const RawRequest& read) const {
  return of_pinned_file(session, read, [&](File& file) -> std::span<const std::byte> {
    Flight flight;
    const bool is_admitted = admit_by(session, *lender_.path, read, &file, flight) && file.fstat_descriptors();
    return is_admitted ? Router::lend(flight) : std::span<const std::byte>();
  });
}

// Tells the lender that the read will be moved, by the stream or another way.
void StreamLoan::before_move(Session& session, const RawRequest& read) const {
  (void)of_pinned_file(session, read, [&](File& file) {
    Flight flight;
    flight.request.mode = SubmitMode::on_stream;
    const bool is_admitted = admit_by(session, *lender_.path, read, &file, flight);
    if (is_admitted) Router::before_move(flight);
    return is_admitted;
  });
}

void StreamLoan::count(Session& session, const RawRequest& read) const {
  before_move(session, read);
  session.engine().count(outcome_of(read.size).report, read.op);
  if (session.config().usage == nullptr) return;
  (void)of_pinned_file(session, read, [&](File& file) {
    file.usage()->end(read.op, read.size, false, file.usage()->begin());
    return true;
  });
}

}  // namespace penstock::core
