// SPDX-License-Identifier: Apache-2.0

// One run: files, sides, contests, report. What bench/versus and `penstock bench --versus` share.
#pragma once

#include <functional>
#include <string>

#include "bench/versus/calls.h"
#include "bench/versus/lines.h"

namespace penstock::versus {

struct Comparison {
  std::string file;             // Made, and taken away again, where there is none.
  std::function<Calls()> ours;  // Called in processes of their own.
  std::string rival;            // Path of the other library.
  Effort effort;
  unsigned pairs = 5;
  bool whole_table = true;  // Otherwise short_lines().
  std::string only;         // Letters of lines; "": all.
  bool stand_in = false;    // Host memory plays the GPU; both libraries must be Penstock's.
  bool judge = true;        // Hold the ratios against their targets.
  std::function<bool()> interrupted;
  std::string command;  // How the program was called, for the report.
};

// Prints each contest as it ends. The report is for programs; "failed" of a contest says why it could not be held.
// Throws a Failure where none can be.
nlohmann::ordered_json compare(const Comparison& comparison, bool print);

// 1 where a contest of the report failed, otherwise 0.
int exit_code_of(const nlohmann::ordered_json& report);

}  // namespace penstock::versus
