// SPDX-License-Identifier: Apache-2.0

// The numbers and names of a model's report as people read them. The unit of a number is the end of its name, as
// everywhere in a report: "save_s", "block_bytes". Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/report.h"

namespace penstock::tools {

// "3 h 48 min", "140 GB", "64 KiB", "3.32"; "-" for null.
std::string worded(const model::Json& value, std::string_view name);
// The label of a column whose values include their unit: "save" for "save, s".
std::string label_for_worded(const model::Column& column);
// "drives in each node" for "drives_per_node".
std::string input_in_words(std::string_view name);
// The options that set an input, of all commands; none if it is worked out from others.
std::vector<std::string> options_of_input(std::string_view name);
// The constant that an input is: "price.gpu_hour" for "gpu_hour_money"; "" if it is none.
std::string_view constant_of_input(std::string_view name);

}  // namespace penstock::tools
