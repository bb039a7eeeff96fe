// SPDX-License-Identifier: Apache-2.0

// Reads the output of `penstock bench --json`: one result, an array of results, a sweep, or several concatenated
// results, as from a loop of runs. Refuses anything else with a sentence that names it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/transfer.h"

namespace penstock::model {

// `name` is the file's name, for errors. Throws InvalidInput.
std::vector<Measurement> bench_results(const std::string& text, std::string_view name);

}  // namespace penstock::model
