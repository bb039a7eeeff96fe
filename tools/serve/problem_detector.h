// SPDX-License-Identifier: Apache-2.0

// Answers node-problem-detector as its custom plugins do: with a first line of at most 80 bytes and an exit code.
#pragma once

#include <string>

#include "tools/serve/facts.h"

namespace penstock::tools {

// The exit codes of its plugins.
constexpr int kNoProblem = 0;
constexpr int kProblem = 1;
constexpr int kUnknown = 2;

struct Diagnosis {
  int exit_code = kNoProblem;
  std::string line;    // At most 80 bytes.
  std::string remedy;  // A second line, or "".
};
// Says if the node offers the path. Pure.
Diagnosis diagnose(const NodeFacts& facts, const std::string& path);

// Prints the answer. Never throws a Failure: if nothing can be found out, the answer is "unknown".
int run_problem_detector(const std::string& host, const std::string& path);

}  // namespace penstock::tools
