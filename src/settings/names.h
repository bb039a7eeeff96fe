// SPDX-License-Identifier: Apache-2.0

// Finds the row of the table that a name means: a name in a file, in its own section or in another, an older name, or a
// misspelt one. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "settings/table.h"

namespace penstock::core {

// How a file named a key; if it did so in two ways, the greater counts.
enum class Standing : std::uint8_t { misplaced, older, own };

struct NamedSetting {
  Setting setting;
  Standing standing = Standing::own;
};

// Finds a setting by its full name, "properties.allow_compat_mode". A name of several words is known in every section,
// because it means only one thing; a name of a single word ("devices") may mean something else in another section.
std::optional<NamedSetting> setting_named(std::string_view name);
bool is_section(std::string_view name);
// The key that an unknown name was probably meant to be: some letters differ, the case of letters, the signs between
// words, or words are added or missing. Among several, a key that forbids something wins.
std::optional<Setting> setting_near(std::string_view name);
std::optional<Setting> prohibition_near(std::string_view name);
// The same for a variable that begins with CUFILE_ or PENSTOCK_; one of PENSTOCK_ may also be a former name.
std::optional<Setting> variable_near(std::string_view name);

// The reason why a variable that NVIDIA's library knows has no effect here; "" for any other name.
std::string_view idle_reason(std::string_view variable);

// Finds one of Penstock's own settings by its short name, "bounce_mib", and the one that was probably meant.
std::optional<Setting> own_setting(std::string_view name);
std::optional<Setting> own_setting_near(std::string_view name);

// True if `name` was probably meant to be `known`. Only letters and digits count, in upper or lower case.
bool is_near(std::string_view name, std::string_view known);

}  // namespace penstock::core
