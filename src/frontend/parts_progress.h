// SPDX-License-Identifier: Apache-2.0

// How far a request came that is moved in parts, each a flight of its own, which may end in any order: the pieces of a
// vectored request, the members' shares of a striped one, and the parts of a stream's. Bytes are counted from the
// start up to the first part that came out short or failed, and the failure nearest to the start counts.
//
// Direct bytes and bounced bytes are those of all parts together. Path and reasons are the first part's. If a later
// part went by bounce and the first did not, its bytes count as bounced, so that the report does not make the request
// look more direct than it was. One thread at a time uses it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/report.h"
#include "engine/progress.h"

namespace penstock::core {

class PartsProgress {
 public:
  PartsProgress() = default;
  PartsProgress(std::uint64_t begin, std::uint64_t size, std::size_t parts)
      : progress_(begin, size), unfinished_(parts) {}

  // A part has ended that was to move `size` bytes from `begin` on.
  void add(std::uint64_t begin, std::uint64_t size, const Outcome& outcome);
  // A part has ended whose bytes lie at several places of the request. If it came out short, fail_at() says where.
  void take_in_scattered(bool is_first, const Report& report);
  void fail_at(std::uint64_t position, const Status& status) { progress_.fail_at(position, status); }
  // A part will not begin.
  void leave_out() { --unfinished_; }

  bool goes_on() const { return progress_.goes_on(); }
  // True if all parts have ended.
  bool is_over() const { return unfinished_ == 0; }
  std::uint64_t begin() const { return progress_.begin(); }
  std::uint64_t end() const { return progress_.end(); }  // The first byte that was not moved, or will not be.
  Outcome outcome() const;

 private:
  Report noted(bool is_first, Report report);

  Progress progress_;
  std::size_t unfinished_ = 0;
  Report first_;  // The first part's report.
};

}  // namespace penstock::core
