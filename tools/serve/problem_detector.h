// SPDX-License-Identifier: Apache-2.0

// One answer to node-problem-detector, as its custom plugins give it: a first line of at most 80 bytes and an exit
// code.
#pragma once

#include <string>

#include "tools/serve/facts.h"

namespace penstock::tools {

// Exit codes of such plugins.
constexpr int kNoProblem = 0;
constexpr int kProblem = 1;
constexpr int kUnknown = 2;

struct Diagnosis {
  int exit_code = kNoProblem;
  std::string line;    // At most 80 bytes.
  std::string remedy;  // A second line, or "".
};
// Tells if the node offers the path. Pure.
Diagnosis diagnose(const NodeFacts& facts, const std::string& path);

// Prints it. Never throws a Failure: an answer that cannot be had is "unknown".
int run_problem_detector(const std::string& host, const std::string& path);

}  // namespace penstock::tools
