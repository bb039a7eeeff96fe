// SPDX-License-Identifier: Apache-2.0

// Reads what `penstock bench --json` printed: one result, an array of them, a sweep, or several one after the
// other, as a loop of runs leaves them in one file. Refuses what is no such result with a sentence that names it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/transfer.h"

namespace penstock::model {

// `name` is the file's, for errors. Throws InvalidInput.
std::vector<Measurement> bench_results(const std::string& text, std::string_view name);

}  // namespace penstock::model
