// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/problem_detector.h"

#include <fmt/format.h>

#include "tools/common/failure.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kLineMax = 80;  // What node-problem-detector keeps, unless it is told otherwise.

std::string cut_line(const std::string& text) {
  const std::string line = printable(text);
  return line.size() <= kLineMax ? line : line.substr(0, kLineMax - 3) + "...";
}

}  // namespace

Diagnosis diagnose(const NodeFacts& facts, const std::string& path) {
  const OfferedPath* const offered = facts.path(path);
  if (offered == nullptr) return {kUnknown, cut_line(fmt::format("there is no path '{}'", path)), ""};
  if (offered->is_available) return {kNoProblem, cut_line(fmt::format("{} is available", path)), ""};
  return {kProblem, cut_line(fmt::format("{} is not available: {}", path, offered->reason)), offered->remedy};
}

int run_problem_detector(const std::string& host, const std::string& path) {
  Diagnosis diagnosis;
  try {
    diagnosis = diagnose(read_facts(host), path);
  } catch (const Failure& failure) {
    diagnosis = {kUnknown, cut_line(failure.what()), ""};
  }
  print("{}\n", diagnosis.line);
  if (!diagnosis.remedy.empty()) print("{}\n", diagnosis.remedy);
  return diagnosis.exit_code;
}

}  // namespace penstock::tools
