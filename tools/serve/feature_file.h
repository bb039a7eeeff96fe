// SPDX-License-Identifier: Apache-2.0

// What Node Feature Discovery shall make labels of, as its feature files have it. Pure.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "tools/serve/facts.h"

namespace penstock::tools {

// Features that nobody renews are dropped from then on.
std::string feature_file_text(const NodeFacts& facts, std::chrono::system_clock::time_point expires);

// As Kubernetes takes it: at most 63 of [A-Za-z0-9_.-], letters or digits at both ends. "" where nothing is left.
std::string label_value(std::string_view text);

}  // namespace penstock::tools
