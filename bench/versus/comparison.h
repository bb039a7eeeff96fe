// SPDX-License-Identifier: Apache-2.0

// One run: files, sides, contests, report. Shared by bench/versus and `penstock bench --versus`.
#pragma once

#include <functional>
#include <string>

#include "bench/versus/calls.h"
#include "bench/versus/lines.h"

namespace penstock::versus {

struct Comparison {
  std::string file;             // Created, and removed at the end, if it does not exist.
  std::function<Calls()> ours;  // Called in the sides' processes.
  std::string rival;            // Path of the library to compare with.
  Effort effort;
  unsigned pairs = 5;
  bool whole_table = true;  // Otherwise short_lines().
  std::string only;         // Letters of the table's lines to run; "": all.
  bool stand_in = false;    // Host memory stands in for the GPU; both libraries must be Penstock's.
  bool judge = true;        // Compare the ratios with their targets.
  std::function<bool()> interrupted;
  std::string command;  // How the program was called, for the report.
};

// Prints each contest as it ends. The report is for programs; "failed" of a contest says why it could not run. Throws a
// Failure if none can run.
nlohmann::ordered_json compare(const Comparison& comparison, bool print);

// Returns 1 if a contest of the report failed, otherwise 0.
int exit_code_of(const nlohmann::ordered_json& report);

}  // namespace penstock::versus
