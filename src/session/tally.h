// SPDX-License-Identifier: Apache-2.0

// Adds up the chunks of one request that one thread moves: how far it came without a gap, and what stood in the way.
// Chunks may come in any order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "path/path.h"
#include "session/transfer.h"

namespace penstock::core {

class Tally {
 public:
  Tally() = default;
  explicit Tally(const TransferInput& input)
      : begin_(input.file_offset), end_(input.file_offset + input.size), wanted_end_(end_) {}

  void take_in(const Completion& completion) {
    const std::uint64_t position = completion.file_offset + completion.bytes;
    if (completion.way == Way::direct) direct_bytes_ += completion.bytes;
    if (completion.bounced != Reason::none) {
      bounced_bytes_ += completion.bytes;
      bounced_reason_ = completion.bounced;
    }
    if (completion.bytes < completion.size) end_ = std::min(end_, position);
    if (!completion.status.ok() && position < failed_at_) {
      failed_at_ = position;
      status_ = completion.status;
    }
  }

  // Nothing was short and nothing failed so far.
  bool goes_on() const { return end_ == wanted_end_ && failed_at_ == UINT64_MAX; }
  // A failure behind the end of the file is none.
  Status status() const { return failed_at_ <= end_ ? status_ : success(); }
  std::uint64_t bytes() const { return end_ - begin_; }
  std::uint64_t direct_bytes() const { return std::min(direct_bytes_, bytes()); }
  std::uint64_t bounced_bytes() const { return std::min(bounced_bytes_, bytes()); }
  Reason bounced_reason() const { return bounced_reason_; }

 private:
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;  // The first byte of the file that was not moved.
  std::uint64_t wanted_end_ = 0;
  std::uint64_t failed_at_ = UINT64_MAX;
  std::uint64_t direct_bytes_ = 0;
  std::uint64_t bounced_bytes_ = 0;
  Reason bounced_reason_ = Reason::none;
  Status status_;
};

}  // namespace penstock::core
