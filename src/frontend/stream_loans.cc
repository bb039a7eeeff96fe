// SPDX-License-Identifier: Apache-2.0

// The part of a stream request whose bytes the stream copies out of the page cache by itself. The call finds the
// lender; later questions to the lender, on a thread of the driver's, call no device.
#include "base/shortage.h"
#include "frontend/stream_request.h"

namespace penstock::core {
namespace {

constexpr std::size_t kPiecesMax = 4096;  // The most pieces of a request that is lent as a whole.

}  // namespace

bool StreamRequest::may_be_lent(std::uint64_t size) const { return target_.lender.path != nullptr && size >= kLentMin; }

// Lends the whole request to a stream that is ready now, as one part without staging memory. The block is taken first:
// from then on nothing is unregistered.
bool StreamRequest::lend_whole() {
  mutex_.assume_held();  // No other thread knows of the request yet.
  if (target_.here == nullptr || !may_be_lent(size_max_) || !check_parameters().ok()) return false;
  const Result<StreamBlock*> block = target_.home->memory().take(0, target_.staging_limit);
  if (!block.ok()) return false;
  part_max_ = size_max_;
  parts_ = slots_ = 1;
  fixed_ = kFixedAll;
  const bool lent = unless_short_of_memory([this] { return lend_pieces(); }, [] { return false; });
  if (lent) use(**block);
  else lent_.clear(), target_.home->memory().give_back(**block);
  return lent;
}

// Lends all pieces or none.
bool StreamRequest::lend_pieces() {
  for (RawRequest rest = request_; rest.size > 0;) {
    const std::span<const std::byte> bytes = core::lend(*target_.here, target_.lender, rest);
    if (bytes.empty() || lent_.size() == kPiecesMax) return false;
    lent_.push_back(bytes);
    rest.size -= bytes.size();
    rest.file_offset += static_cast<std::int64_t>(bytes.size());
    rest.buffer_offset += static_cast<std::int64_t>(bytes.size());
  }
  lent_outcome_ = count_lent(*target_.here, target_.lender, request_);
  return true;
}

std::optional<Outcome> StreamRequest::lend(Part& job) {
  if (!lent_.empty()) return lent_outcome_;
  if (!may_be_lent(job.request.size)) return std::nullopt;
  const MutexLock lock(pool_.mutex);
  if (pool_.executor == nullptr) return std::nullopt;
  const std::span<const std::byte> bytes = core::lend(*pool_.session, target_.lender, job.request);
  if (bytes.size() < job.request.size) {
    commit_on_stream(*pool_.session, target_.lender, job.request);
    return std::nullopt;
  }
  job.lent = bytes.data();
  return count_lent(*pool_.session, target_.lender, job.request);
}

Status StreamRequest::copy_lent() {
  std::uint64_t to =
      reinterpret_cast<std::uintptr_t>(request_.base) + static_cast<std::uint64_t>(request_.buffer_offset);
  Status status;
  for (const std::span<const std::byte> piece : lent_) {
    const StreamCopy what{to, reinterpret_cast<std::uintptr_t>(piece.data()), piece.size()};
    if (status.ok()) status = target_.home->work().copy_at_once(target_.stream, *block_, what);
    to += piece.size();
  }
  return status;
}

}  // namespace penstock::core
