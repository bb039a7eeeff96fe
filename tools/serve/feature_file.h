// SPDX-License-Identifier: Apache-2.0

// The facts that Node Feature Discovery turns into labels, in the form of its feature files. Pure.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "tools/serve/facts.h"

namespace penstock::tools {

// `expires` is the time from which on the features are dropped unless they are renewed.
std::string feature_file_text(const NodeFacts& facts, std::chrono::system_clock::time_point expires);

// Makes a value that Kubernetes accepts: at most 63 of [A-Za-z0-9_.-], letters or digits at both ends. May return "".
std::string label_value(std::string_view text);

}  // namespace penstock::tools
