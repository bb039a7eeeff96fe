// SPDX-License-Identifier: Apache-2.0

// The settings as text: for people, for programs, and for the manual, where values are not this machine's. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "settings/settings.h"
#include "tools/common/context.h"
#include "tools/common/terminal.h"

namespace penstock::tools {

// The users' names: Penstock's own by their short names, cuFile's by section and name.
std::string_view public_name(core::Setting setting);

// A paragraph each, Penstock's own first. `chosen` are told in the order in which they are given.
Text settings_text(const core::LoadedSettings& loaded, const std::vector<core::Setting>& chosen);
Json settings_json(const core::LoadedSettings& loaded, const std::vector<core::Setting>& chosen);
// Tables of docs/reference/settings.md.
std::string settings_markdown();

}  // namespace penstock::tools
