// SPDX-License-Identifier: Apache-2.0

// One line on a terminal that says how far a long operation has come: bytes, percent, GB/s, time left. Shown on
// stderr, only where that is a terminal, and only after a second. Used by one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace penstock::tools {

// The line itself. fraction: the part of the work that is done, 0 to 1.
std::string progress_line(const std::string& label, std::uint64_t bytes, double fraction, double seconds);

class Progress {
 public:
  explicit Progress(std::string label);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // Takes the line away.

  void update(std::uint64_t bytes, double fraction);

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
  bool is_terminal_;
  bool visible_ = false;
};

}  // namespace penstock::tools
