// SPDX-License-Identifier: Apache-2.0

// Describes a setting's range and default in words, from its row: for messages, `penstock settings` and the manual.
// Pure.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "settings/settings.h"

namespace penstock::core {

// Text to follow "expected" and "must be": "a number of MiB, 1 to 65536", "auto, always or never".
std::string takes_text(const SettingRow& row);
std::string file_takes_text(const SettingRow& row);  // In a cufile.json or a call.
// The default as text: "256", "auto", "a quarter of the memory of the machine or container"; "none" if it is empty.
std::string default_text(const SettingRow& row);

// A text or list with its words as the table writes them; nothing if it has a word that the row does not accept.
std::optional<Value> among_choices(const SettingRow& row, Value value);

// Calls `visit` with each word between blanks, until it returns true.
template <typename Visit>
bool any_word(std::string_view words, Visit visit) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (end > 0 && visit(words.substr(0, end))) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

// Makes a part of a user's text fit for a sentence.
std::string shown(std::string_view text);

bool same_word(std::string_view one, std::string_view other);  // Compares without regard to case.

}  // namespace penstock::core
