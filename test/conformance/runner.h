// SPDX-License-Identifier: Apache-2.0

// Runs cases, each in a process of its own, several at a time, with a limit of time. The parent loads neither CUDA nor
// the library: a child begins clean. What a child told before it crashed or hung is kept, and the end is told after it.
#ifndef PENSTOCK_CONFORMANCE_RUNNER_H_
#define PENSTOCK_CONFORMANCE_RUNNER_H_

#include <map>
#include <string>
#include <vector>

#include "fixture.h"

namespace conformance {

struct Options {
  std::string library = "libcufile.so.0";
  std::string cuda = "libcuda.so.1";
  std::string folder = "/tmp";
  unsigned jobs = 1;
  int timeout_s = 20;
};

using Lines = std::vector<std::string>;
using Outcomes = std::map<std::string, Lines>;

// Cases that were not begun when SIGTERM or SIGINT came are left out.
Outcomes run(const std::vector<Case>& chosen, const Options& options);

}  // namespace conformance

#endif  // PENSTOCK_CONFORMANCE_RUNNER_H_
