// SPDX-License-Identifier: Apache-2.0

// One line on a terminal that shows how far a long operation has come: bytes, percent, GB/s, time left. It is shown on
// stderr, only if that is a terminal, and only after a second. One thread uses it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace penstock::tools {

// Makes the line. `fraction` is the part of the work that is done, 0 to 1.
std::string progress_line(const std::string& label, std::uint64_t bytes, double fraction, double seconds);

class Progress {
 public:
  explicit Progress(std::string label);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // Erases the line.

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
