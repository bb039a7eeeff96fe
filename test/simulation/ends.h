// SPDX-License-Identifier: Apache-2.0

// The end of a simulated process whose threads are within calls of the library: it is killed, or one of its threads
// calls exit(), whose handlers and destructors run while the others go on. Either way nothing hangs; no call of exit()
// reaches the GPU's driver, which may be shut down by then; what the kernel still moves is what was asked for; and
// nvidia-fs has no request that outlives the process, whose pins it would keep for ever.
#pragma once

#include <functional>

#include "simulation/requests.h"
#include "simulation/scheduler.h"

namespace penstock::simulation {

class Ends {
 public:
  // In each process. Calls this when it ends in one of these ways.
  void begin(std::function<void()> keep);
  // This process ends so soon, unless it has ended by itself before. The tally is its program's.
  void draw(Random& random, const Tally& tally);
  const Tally* tally() const { return tally_; }  // Null: none was drawn.
  // For threads of the program, between two of their calls.
  void exit_if_due();
  [[noreturn]] void exit_now();
  bool is_exiting() const { return is_exiting_; }
  // The running thread is within exit().
  bool is_exiting_here() const { return is_exiting_ && scheduler().current() == exiting_; }
  // Nothing of the process runs any more.
  [[noreturn]] void be_over();

 private:
  std::function<void()> keep_;
  const Tally* tally_ = nullptr;
  bool is_due_ = false, is_exiting_ = false;
  unsigned exiting_ = 0;
};

Ends& ends();

}  // namespace penstock::simulation
