// SPDX-License-Identifier: Apache-2.0

// Pages with plots, which need no network: a command's script in plots/page.html, with what all of them share and
// Chart.js. penstock_page() of CMake makes a string of it, with a mark where the JSON goes.
#pragma once

#include <string>
#include <string_view>

#include "tools/common/context.h"

namespace penstock::tools {

// Throws, with exit code 77, where Chart.js was not there when this was built: the page is "" then.
void require_plots(std::string_view page);
// The page with the data in it.
std::string page_with(std::string_view page, const Json& data);

}  // namespace penstock::tools
