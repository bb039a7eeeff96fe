// SPDX-License-Identifier: Apache-2.0

// A session's configuration out of settings by name, as a program says them, over an environment that says nothing.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/invariant.h"
#include "session/config.h"
#include "settings/settings.h"

namespace penstock::core {

using SaidByName = std::initializer_list<std::pair<std::string_view, std::string_view>>;

inline Config test_config(
    SaidByName said = {}, Environment environment = [](const char*) -> const char* { return nullptr; }) {
  PendingValues pending;
  for (const auto& [name, value] : said) PENSTOCK_INVARIANT(set_pending_named(pending, name, value).ok());
  return make_config(load_session_settings(environment, pending).settings);
}

}  // namespace penstock::core
