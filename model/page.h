// SPDX-License-Identifier: Apache-2.0

// The HTML page into which a report's JSON is put, in place of @DATA@: page.html, made into a string by CMake. It holds
// its own style and script, so it works without a network.
#pragma once

#include <string_view>

namespace penstock::model {

std::string_view page_template();

}  // namespace penstock::model
