// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "settings/words.h"
#include "tools/settings/listing.h"

namespace penstock::tools {
namespace {

using core::Setting;

std::string code(std::string_view text) { return text.empty() ? "" : fmt::format("`{}`", text); }

void add_code(std::string& list, std::string_view text) {
  if (!text.empty()) list += (list.empty() ? "" : ", ") + code(text);
}

std::string codes(std::string_view words) {
  std::string list;
  core::any_word(words, [&](std::string_view word) {
    add_code(list, word);
    return false;
  });
  return list;
}

// The settings that are served, with their effects.
std::string served_table(bool own) {
  std::string text =
      "| setting | variable | takes | default | what it does |\n"
      "|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < core::kSettingCount; ++i) {
    const Setting setting = Setting::at(i);
    const core::SettingRow& row = setting.row();
    if (!setting.is_served() || setting.is_own() != own) continue;
    std::string meaning(row.meaning);
    if (!row.aliases.empty()) meaning += fmt::format(" (also called {})", codes(row.aliases));
    text += fmt::format("| {} | {} | {} | {} | {} |\n", code(public_name(setting)), code(row.variable),
                        core::takes_text(row), core::default_text(row), meaning);
  }
  return text;
}

// Keys and variables by what keeps them from an effect.
std::string idle_table() {
  std::vector<std::pair<std::string_view, std::string>> reasons;
  const auto names_of = [&](std::string_view reason) -> std::string& {
    const auto found = std::find_if(reasons.begin(), reasons.end(), [&](auto& one) { return one.first == reason; });
    return found != reasons.end() ? found->second : reasons.emplace_back(reason, "").second;
  };
  for (const core::SettingRow& row : core::kSettingRows) {
    if (row.idle.empty()) continue;
    add_code(names_of(row.idle), row.key);
    add_code(names_of(row.idle), row.variable);
  }
  for (const char* const variable : core::kIdleVariables) add_code(names_of(core::kIdleVariablesReason), variable);
  std::string text = "| without effect | because |\n|---|---|\n";
  for (const auto& [reason, names] : reasons) text += fmt::format("| {} | {} |\n", names, reason);
  return text;
}

}  // namespace

std::string settings_markdown() {
  return "### Penstock's settings\n\n" + served_table(true) + "\n### cuFile's keys that have an effect\n\n" +
         served_table(false) + "\n### cuFile's keys and variables that have none\n\n" + idle_table();
}

}  // namespace penstock::tools
