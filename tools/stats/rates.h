// SPDX-License-Identifier: Apache-2.0

// The rates at which processes move bytes, from one look at them to the next. A session that opens between two looks
// counts from zero, other sessions from the first look on; bytes that a session moved after it was last seen are lost.
// Pure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/common/stats_source.h"

namespace penstock::tools {

inline constexpr std::size_t kHistoryMost = 60;

// The bytes that moved between two looks.
struct Moved {
  Ways ways;  // Only counts that grew.
  double seconds = 0;

  double per_second(std::uint64_t count) const { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }
  double rate(core::Op op) const;  // Bytes a second, by all paths.
  double rate() const { return rate(core::Op::read) + rate(core::Op::write); }
};

struct ProcessRate {
  pid_t pid = 0;
  std::string command;
  Moved moved;
  std::vector<unsigned> gpus;  // GPUs that its bytes ever went to or from, if cuFile's statistics tell (level 3).
  std::deque<double> history;  // The rate at each look, the last one last.
  std::string refusal;
};

struct MachineRate {
  Moved moved;
  std::vector<ProcessRate> processes;  // The busiest first.
  unsigned hidden = 0;
  unsigned not_looked_at = 0;
  std::string why_hidden;  // The same text as in MachineView.
};

class Rates {
 public:
  // Returns the bytes since the look before, `seconds` ago; nothing at the first look.
  MachineRate add(const MachineView& machine, double seconds);

 private:
  using SessionKey = std::pair<pid_t, std::uint64_t>;

  void add_session(const SessionKey& key, const core::StatsSnapshot& session, Ways& moved);

  std::map<SessionKey, Ways> before_, now_;
  std::map<pid_t, std::deque<double>> histories_;
  bool is_first_ = true;
};

}  // namespace penstock::tools
