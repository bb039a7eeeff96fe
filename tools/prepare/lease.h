// SPDX-License-Identifier: Apache-2.0

// A lease of a file: while it holds, nobody else has the file open.
#pragma once

#include <chrono>
#include <string>

namespace penstock::tools {

// Who wants to open the file waits, for as long as the system lets them. Throws Failure where somebody has it open.
class Lease {
 public:
  Lease(const std::string& path, int fd);  // Both outlive it.
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease();

  void check();  // Throws where somebody wants to open the file.

  // Also while somebody waits: the kernel does not say whether it has let them in, but it cannot have done so before
  // their time was up, which began when the lease was last seen unwanted or later. Half of that time is left for what
  // is done with the answer.
  bool keeps_others_out();

 private:
  using Clock = std::chrono::steady_clock;

  bool is_unwanted();

  const std::string& path_;
  int fd_;
  Clock::time_point unwanted_at_;
};

}  // namespace penstock::tools
