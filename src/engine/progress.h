// SPDX-License-Identifier: Apache-2.0

// How far a request came: the bytes of its chunks and parts, how far they reach without a gap, and the first failure.
// Chunks may end in any order, and on several threads; each thread has a progress of its own, which is merged into the
// request's. One thread at a time uses it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/report.h"
#include "path/path.h"

namespace penstock::core {

class Progress {
 public:
  Progress() = default;
  Progress(std::uint64_t begin, std::uint64_t size) : begin_(begin), end_(begin + size), wanted_end_(end_) {}

  void add(const Completion& completion) {
    const std::uint64_t position = completion.file_offset + completion.bytes;
    if (completion.io_mode == IoMode::o_direct) direct_bytes_ += completion.bytes;
    if (completion.bounced != Reason::none) {
      bounced_bytes_ += completion.bytes;
      bounced_reason_ = completion.bounced;
    }
    if (completion.bytes > 0) reached_ = std::max(reached_, position);
    if (!completion.status.ok()) fail_at(position, completion.status);
    else if (completion.bytes < completion.size) stop_at(position);
  }

  // Adds a part that was moved as a request of its own.
  void add(std::uint64_t begin, std::uint64_t size, const Outcome& part) {
    const std::uint64_t position = begin + part.report.bytes;
    direct_bytes_ += part.report.direct_bytes;
    if (part.report.bounced_bytes > 0) {
      bounced_bytes_ += part.report.bounced_bytes;
      bounced_reason_ = part.report.bounced_reason;
    }
    if (part.report.bytes > 0) reached_ = std::max(reached_, position);
    if (!part.status.ok()) fail_at(position, part.status);
    else if (part.report.bytes < size) stop_at(position);
  }

  // Adds the progress of other chunks of the request.
  void merge(const Progress& other) {
    direct_bytes_ += other.direct_bytes_;
    bounced_bytes_ += other.bounced_bytes_;
    if (other.bounced_bytes_ > 0) bounced_reason_ = other.bounced_reason_;
    reached_ = std::max(reached_, other.reached_);
    if (other.end_ < other.wanted_end_) stop_at(other.end_);
    if (other.failed_at_ != UINT64_MAX) fail_at(other.failed_at_, other.status_);
  }

  // Notes a failure. The one nearest to the start counts, because a sequential request would have met it first.
  void fail_at(std::uint64_t position, const Status& status) {
    if (position < failed_at_) {
      failed_at_ = position;
      status_ = status;
    }
    stop_at(position);
  }
  void stop_at(std::uint64_t position) { end_ = std::min(end_, position); }
  // Notes that the bytes before the position were moved after all.
  void go_on_to(std::uint64_t position) { end_ = std::min(position, wanted_end_); }

  // True if no chunk was short and none failed so far.
  bool goes_on() const { return end_ == wanted_end_ && failed_at_ == UINT64_MAX; }
  bool has_failed() const { return failed_at_ != UINT64_MAX; }
  std::uint64_t begin() const { return begin_; }
  std::uint64_t end() const { return end_; }  // The first byte of the file that was not moved.
  // The end of the last byte that was moved, even if there are gaps before it.
  std::uint64_t reached() const { return reached_; }
  std::uint64_t bytes() const { return end_ - begin_; }
  std::uint64_t direct_bytes() const { return std::min(direct_bytes_, bytes()); }
  std::uint64_t bounced_bytes() const { return std::min(bounced_bytes_, bytes()); }
  // The status; a failure behind the end of the file does not count.
  Status status() const { return failed_at_ <= end_ ? status_ : success(); }

  // Fills in the report of the request. If all bytes went through bounce buffers, the report names the path bounce.
  void fill_report(Report& report) const {
    report.bytes = bytes();
    report.direct_bytes = direct_bytes();
    report.bounced_bytes = bounced_bytes();
    report.bounced_reason = bounced_reason_;
    if (report.bounced_bytes == 0 || report.bounced_bytes < report.bytes) return;
    if (report.refused < 0) {
      report.refused = static_cast<int>(report.path);
      report.reason = report.bounced_reason;
    }
    report.path = PathId::bounce;
    report.bounced_bytes = 0;
    report.bounced_reason = Reason::none;
  }

 private:
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t wanted_end_ = 0;
  std::uint64_t reached_ = 0;
  std::uint64_t failed_at_ = UINT64_MAX;
  std::uint64_t direct_bytes_ = 0;
  std::uint64_t bounced_bytes_ = 0;
  Reason bounced_reason_ = Reason::none;
  Status status_;
};

}  // namespace penstock::core
