// SPDX-License-Identifier: Apache-2.0

// Whether a path can move a request, and why not: a stable reason with a sentence and a remedy, never a score.
// The numbers are those of include/penstock/penstock.h.
#pragma once

#include <cstdint>

#include "topology/obstacle.h"

namespace penstock::core {

// Best first.
enum class PathId : std::uint8_t { p2pdma, pagecache, vendor, bounce, host, null };
constexpr unsigned kPathCount = 6;

enum class Reason : std::uint8_t {
  none,
  not_listed,
  not_built,
  host_memory,
  device_memory,
  stand_in,
  io_uring_forbidden,
  io_uring_off,
  denied,
  userspace_file,
  on_stream,
  direct_io_off,
  self_test_refused,
  self_test_wrong,
  self_test_copied,
  self_test_no_room,
  no_scratch,
  refused_late,
  vendor_library_missing,
  vendor_is_ourselves,
  vendor_incomplete,
  nvidia_fs_missing,
  vendor_refused,
  vendor_not_direct,
  vendor_off,
  not_kept,
  pages_went,
  no_page_registration,
  file_system_pages,
  opened_direct,
  keeping_off,
  reads_only,
  obstacle = 32,  // And above: this and the number of an Obstacle of topology/.
};
constexpr unsigned kReasonCount = 160;

constexpr Reason reason_of(Obstacle obstacle) {
  return static_cast<Reason>(static_cast<unsigned>(Reason::obstacle) + static_cast<unsigned>(obstacle));
}

struct Verdict {
  PathId path = PathId::bounce;
  bool usable = false;
  Reason reason = Reason::none;  // For a usable path: none, or why it is slower than it could be.
  int detail = 0;                // An errno that goes with the reason, or a number of cuFile's from 5001 on; else 0.
};

constexpr Verdict usable(PathId path, Reason reason = Reason::none, int detail = 0) {
  return {path, true, reason, detail};
}
constexpr Verdict refused(PathId path, Reason reason, int detail = 0) { return {path, false, reason, detail}; }

const char* path_name(PathId path);
// "unknown" and empty texts for numbers between those that mean something.
const char* reason_name(Reason reason);
const char* reason_sentence(Reason reason);
const char* reason_remedy(Reason reason);

}  // namespace penstock::core
