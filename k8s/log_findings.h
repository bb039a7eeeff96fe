// SPDX-License-Identifier: Apache-2.0

// What a log says of known causes. Throws a Failure where it cannot be read; its words are anybody's.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::tools::k8s {

struct LogCause;

struct LogFinding {
  const LogCause* cause = nullptr;
  std::string file;
  std::size_t line = 0;   // Where it stands for the first time; from 1.
  std::size_t count = 0;  // Of lines.
  std::string text;       // Of the first line, or its beginning.
};

const LogCause* cause_of(std::string_view line);  // Null for none.

// Adds what the log says, in the order of its lines; one row for each cause.
void read_log(std::FILE* log, const std::string& file, std::vector<LogFinding>& findings);

}  // namespace penstock::tools::k8s
