// SPDX-License-Identifier: Apache-2.0

// Settings as words, for comparisons and sweeps: "direct", "bs=4M,depth=4", "PENSTOCK_POLICY=throughput".
#pragma once

#include <string>

#include "tools/bench/settings.h"

namespace penstock::tools {

// Throws for numbers that make no sense and for settings that exclude each other.
void check_settings(const BenchSettings& settings);

// `base` with the settings that `words` name, separated by commas. A comma within a variable's value is left in it.
BenchSettings variant_of(const BenchSettings& base, const std::string& words);

}  // namespace penstock::tools
