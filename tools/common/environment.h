// SPDX-License-Identifier: Apache-2.0

// What the environment sets for the library, and what it only seems to set: a name with a slip in it is ignored by the
// library, and must not be shown as if it were in force.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::tools {

bool is_library_setting(std::string_view name);

struct EnvironmentSettings {
  std::vector<std::pair<std::string, std::string>> known;    // PENSTOCK_... names that the library reads, sorted.
  std::vector<std::pair<std::string, std::string>> unknown;  // Those that nothing reads.
};
EnvironmentSettings environment_settings();

// The known name that was probably meant; "" where none is near.
std::string nearest_setting(std::string_view name);

}  // namespace penstock::tools
