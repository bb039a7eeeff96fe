// SPDX-License-Identifier: Apache-2.0

// The reasons why a path was taken or refused: a stable number, a name, a sentence and a remedy. Each owner of reasons
// has a range of numbers. The reasons here are shared by all; obstacles (topology/obstacle.h) and paths have ranges of
// their own, whose texts are in their own folders. path/reasons.h finds the text of any reason.
#pragma once

#include <cstdint>
#include <span>

namespace penstock::core {

enum class Reason : std::uint16_t {
  none,
  not_listed,
  host_memory,
  device_memory,
  stand_in,
  io_uring_forbidden,
  io_uring_off,
  denied,
  on_stream,
  direct_io_off,
  userspace_file,
};

struct ReasonText {
  const char* name;      // "not_listed"
  const char* sentence;  // Its meaning, for people; begins in lower case, and has no full stop.
  const char* remedy;    // Begins in lower case, and has no full stop; "" if there is none, or none is needed.
};

// The reasons of one owner, in the order of their numbers from `first` on.
struct ReasonRange {
  std::uint16_t first;
  std::span<const ReasonText> texts;
};

// The first number of each range. A range ends before the next one begins.
inline constexpr std::uint16_t kFirstObstacle = 32;
inline constexpr std::uint16_t kFirstPipelineReason = 160;
inline constexpr std::uint16_t kFirstPagecacheReason = 168;
inline constexpr std::uint16_t kFirstVendorReason = 176;
inline constexpr std::uint16_t kFirstNvfsReason = 192;
inline constexpr std::uint16_t kFirstDmabufReason = 216;
inline constexpr std::uint16_t kFirstResidentReason = 232;
inline constexpr unsigned kReasonCount = 240;  // Higher numbers belong to no reason.

ReasonRange core_reasons();

}  // namespace penstock::core
