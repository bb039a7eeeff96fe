// SPDX-License-Identifier: Apache-2.0

// Simulated processes beside each other: forked children of one conductor, of which one runs at a time. The one that
// runs hands the baton back at times that its seed decides, in the middle of any call, and goes on when it gets it
// again. When it ends, its memory, descriptors, locks and leases end with it, as the kernel has it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "simulation/scheduler.h"

namespace penstock::simulation {

class Conductor {
 public:
  // A process that will do this, by a seed of its own, once it gets the baton, and then ends.
  void start(const std::function<void(Random&)>& body);
  std::size_t alive() const { return processes_.size(); }
  pid_t pid(std::size_t process) const { return processes_[process].pid; }
  // Lets it run for a while. False if it has ended meanwhile, and is gone from the list. Fails the run where it has
  // found something.
  bool go_on(std::size_t process);

 private:
  struct Process {
    pid_t pid;
    int line;
  };
  std::vector<Process> processes_;
};

}  // namespace penstock::simulation
