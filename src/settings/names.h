// SPDX-License-Identifier: Apache-2.0

// Which row of the table a name means: one of a file, in its section or in another one, an older one, or one that was
// misspelt. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "settings/table.h"

namespace penstock::core {

// How a file came to name a key; if it did so in two ways, the greater counts.
enum class Standing : std::uint8_t { misplaced, older, own };

struct NamedSetting {
  Setting setting;
  Standing standing = Standing::own;
};

// By a full name, "properties.allow_compat_mode". One of several words is known in every section, since it means one
// thing only; one of a single word ("devices") may be something else's there.
std::optional<NamedSetting> setting_named(std::string_view name);
bool is_section(std::string_view name);
// The key that an unknown name was probably meant to be: a few letters off, other letters' case or other signs between
// the words, words more or less.
// One that forbids something comes before all others.
std::optional<Setting> setting_near(std::string_view name);
std::optional<Setting> prohibition_near(std::string_view name);
// The same for a variable, which begins with CUFILE_ or PENSTOCK_; a PENSTOCK_ one may also have another name now.
std::optional<Setting> variable_near(std::string_view name);

// One of Penstock's own by its short name, "bounce_mib", and the one that was probably meant.
std::optional<Setting> own_setting(std::string_view name);
std::optional<Setting> own_setting_near(std::string_view name);

// True if `name` was probably meant to be `known`. Only letters and digits count, in either case.
bool is_near(std::string_view name, std::string_view known);

}  // namespace penstock::core
