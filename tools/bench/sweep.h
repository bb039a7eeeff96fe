// SPDX-License-Identifier: Apache-2.0

// penstock bench --sweep: each combination of settings measured, as a table, CSV, JSON, and a page with plots.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/report.h"
#include "tools/common/terminal.h"

namespace penstock::tools {

struct Axis {
  std::string name;                 // "bs"
  std::vector<std::string> values;  // "4k", "64k"
};
// "bs=4k,64k". Throws for what names no values, or one twice.
Axis axis_of(const std::string& word);

struct Cell {
  std::vector<std::string> values;  // One of each axis.
  BenchOutcome outcome;
};

struct Sweep {
  std::vector<Axis> axes;
  std::vector<Cell> cells;  // The last axis runs fastest. Fewer than there are combinations where it was interrupted.
};

int run_sweep(const BenchSettings& settings);  // The exit code.

Text sweep_table(const Sweep& sweep);
std::string sweep_csv(const Sweep& sweep);
Json sweep_json(const Sweep& sweep);
std::string_view bench_page();  // "" if this build has no plots.

}  // namespace penstock::tools
