// SPDX-License-Identifier: Apache-2.0

// penstock bench --compare: measures two settings in turns, or takes two files of results, and says whether they differ
// by more than chance.
#pragma once

#include "tools/bench/settings.h"

namespace penstock::tools {

// Both return the exit code.
int compare_settings(const BenchSettings& settings);
int compare_results(const BenchSettings& settings);

}  // namespace penstock::tools
