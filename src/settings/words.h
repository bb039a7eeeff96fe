// SPDX-License-Identifier: Apache-2.0

// A setting's range and default in words: for messages, `penstock settings` and the manual. All of it follows from the
// setting's row. Pure.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "settings/settings.h"

namespace penstock::core {

// "a number of MiB, 1 to 65536", "auto, always or never": to follow "expected" and "must be".
std::string takes_text(const SettingRow& row);
// "256", "auto", "a quarter of the memory of the machine or container"; "none" for no text.
std::string default_text(const SettingRow& row);

// A text or list as the table writes its words; nothing where it is none of those that the row takes.
std::optional<Value> among_choices(const SettingRow& row, Value value);

// Calls `visit` with each of the words between blanks, until it says true.
template <typename Visit>
bool any_word(std::string_view words, Visit visit) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (end > 0 && visit(words.substr(0, end))) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

// A part of a user's text, fit for a sentence.
std::string shown(std::string_view text);

bool same_word(std::string_view one, std::string_view other);  // In letters of either case.

}  // namespace penstock::core
