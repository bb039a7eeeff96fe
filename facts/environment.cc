// SPDX-License-Identifier: Apache-2.0

#include "facts/environment.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/environment.h"
#include "settings/names.h"

namespace penstock::facts {
namespace {

bool is_known(std::string_view name) {
  return std::any_of(core::kSettingRows.begin(), core::kSettingRows.end(),
                     [&](const core::SettingRow& row) { return row.variable == name; });
}

// Finds the environment's variables with this prefix.
Variables variables(std::string_view prefix) {
  Variables found;
  for (const char* const* entry = core::process_variables(); entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || !text.starts_with(prefix)) continue;
    found.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

WithoutVariables::WithoutVariables(Variables variables) : variables_(std::move(variables)) {
  for (const auto& [name, value] : variables_) unsetenv(name.c_str());
}

WithoutVariables::~WithoutVariables() {
  for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
}

EnvironmentSettings environment_settings() { return sorted_by_use(variables(kPrefix)); }

EnvironmentSettings sorted_by_use(const Variables& all) {
  EnvironmentSettings settings;
  for (const auto& one : all) {
    if (one.first.starts_with(kPrefix)) (is_known(one.first) ? settings.known : settings.unknown).push_back(one);
  }
  return settings;
}

Variables variables_for_library() {
  Variables all = variables("CUFILE_");
  for (auto& one : variables("CUOBJ_")) all.push_back(std::move(one));
  for (auto& one : environment_settings().known) all.push_back(std::move(one));
  return all;
}

std::optional<core::Setting> setting_by_any_name(std::string_view name) {
  for (std::size_t i = 0; i < core::kSettingCount; ++i) {
    const core::Setting setting = core::Setting::at(i);
    if (name == setting.key() || (!name.empty() && name == setting.row().variable)) return setting;
  }
  if (const std::optional<core::Setting> own = core::own_setting(name)) return own;
  const std::optional<core::NamedSetting> other = core::setting_named(name);
  return other ? std::optional(other->setting) : std::nullopt;
}

std::string library_setting(std::string_view variable) {
  const auto row = std::find_if(core::kSettingRows.begin(), core::kSettingRows.end(),
                                [&](const core::SettingRow& each) { return each.variable == variable; });
  if (row == core::kSettingRows.end() || !variable.starts_with(kPrefix)) return "";
  const std::string_view key = row->key;
  return std::string(key.substr(key.find('.') + 1));
}

std::string_view reason_without_effect(std::string_view variable) { return core::idle_reason(variable); }

std::string setting_name(core::Setting setting) {
  return std::string(setting.is_own() ? setting.name() : setting.key());
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < core::kSettingCount; ++i) {
    const core::Setting setting = core::Setting::at(i);
    if (setting.is_served()) names.push_back(setting_name(setting));
  }
  return names;
}

std::string nearest_setting(std::string_view name) {
  const std::optional<core::Setting> near = core::variable_near(name);
  return near ? near->row().variable : "";
}

}  // namespace penstock::facts
