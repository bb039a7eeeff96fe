// SPDX-License-Identifier: Apache-2.0

// penstock bench --versus: compares this program's library with another cuFile library, using the code of bench/versus.
#pragma once

#include "tools/bench/settings.h"

namespace penstock::tools {

// Returns the exit code.
int run_bench_versus(const BenchSettings& settings);

}  // namespace penstock::tools
