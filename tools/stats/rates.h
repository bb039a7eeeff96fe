// SPDX-License-Identifier: Apache-2.0

// How fast processes move bytes, from one look at them to the next. Sessions that open between two looks count
// from zero, others from the first look on; bytes that a session moved after the last look that saw it are lost.
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
  Ways ways;  // Only those that anything went.
  double seconds = 0;

  double per_second(std::uint64_t count) const { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }
  double rate(core::Op op) const;  // Bytes a second, by all ways.
  double rate() const { return rate(core::Op::read) + rate(core::Op::write); }
};

struct ProcessRate {
  pid_t pid = 0;
  std::string command;
  Moved moved;
  std::vector<unsigned> gpus;  // GPUs that its bytes ever went to or from, if cuFile's statistics tell (level 3).
  std::deque<double> history;  // Rates, the last one last, one each look.
  std::string refusal;
};

struct MachineRate {
  Moved moved;
  std::vector<ProcessRate> processes;  // The busiest first.
  unsigned hidden = 0;
  unsigned not_looked_at = 0;
  std::string why_hidden;  // The same as in MachineView.
};

class Rates {
 public:
  // Returns the bytes since the look before, which was `seconds` ago; nothing at the first one.
  MachineRate add(const MachineView& machine, double seconds);

 private:
  using SessionKey = std::pair<pid_t, std::uint64_t>;

  void add_session(const SessionKey& key, const core::StatsSnapshot& session, Ways& moved);

  std::map<SessionKey, Ways> before_, now_;
  std::map<pid_t, std::deque<double>> histories_;
  bool is_first_ = true;
};

}  // namespace penstock::tools
