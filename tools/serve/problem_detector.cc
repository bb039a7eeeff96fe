// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/problem_detector.h"

#include <fmt/format.h>

#include "tools/common/failure.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kLineMax = 80;  // node-problem-detector keeps no more by default.

std::string cut_line(const std::string& text) {
  const std::string line = printable(text);
  return line.size() <= kLineMax ? line : line.substr(0, kLineMax - 3) + "...";
}

}  // namespace

Diagnosis diagnose(const NodeFacts& facts, const std::string& path) {
  const facts::PathOutlook* const found = facts.path(path);
  if (found == nullptr) return {kUnknown, cut_line(fmt::format("there is no path '{}'", path)), ""};
  const auto tell = [&](int exit_code, const char* state) {
    return Diagnosis{exit_code, cut_line(fmt::format("{} is {}: {}", path, state, found->reason_name())),
                     found->remedy()};
  };
  switch (found->standing()) {
    case facts::Standing::usable: return {kNoProblem, cut_line(fmt::format("{} is available", path)), ""};
    case facts::Standing::off: return tell(kProblem, "off");
    case facts::Standing::unknown: return tell(kUnknown, "unknown");
    case facts::Standing::closed: break;
  }
  return tell(kProblem, "not available");
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
