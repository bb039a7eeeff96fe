// SPDX-License-Identifier: Apache-2.0

#include "tools/settings/listing.h"

#include <fmt/format.h>

#include "settings/words.h"

namespace penstock::tools {
namespace {

using core::Setting;

std::string value_of(const core::Settings& settings, Setting setting) {
  const std::string text = settings.text_of(setting);
  return text.empty() ? "none" : text;
}

Text paragraph(const core::Settings& settings, Setting setting) {
  const core::SettingRow& row = setting.row();
  Text text = Text::of("{} = {} ({})\n", public_name(setting), value_of(settings, setting),
                       core::origin_name(settings.origin(setting)));
  if (!setting.is_served()) return text += Text::of("    has no effect: {}\n", row.idle);
  text += Text::of("    {}\n    takes {}; by default {}", row.meaning, core::takes_text(row), core::default_text(row));
  if (*row.variable != '\0') text += Text::of("; variable {}", row.variable);
  if (!row.aliases.empty()) text += Text::of("; also called {}", row.aliases);
  return text += Text::of("\n");
}

Json or_null(std::string_view text) { return text.empty() ? Json(nullptr) : Json(text); }

Json setting_json(const core::Settings& settings, Setting setting) {
  const core::SettingRow& row = setting.row();
  return {{"name", public_name(setting)},
          {"key", row.key},
          {"variable", or_null(row.variable)},
          {"value", settings.text_of(setting)},
          {"source", core::origin_name(settings.origin(setting))},
          {"default", core::default_text(row)},
          {"takes", core::takes_text(row)},
          {"meaning", or_null(row.meaning)},
          {"without_effect", or_null(row.idle)}};
}

}  // namespace

std::string_view public_name(Setting setting) { return setting.is_own() ? setting.name() : setting.key(); }

Text settings_text(const core::LoadedSettings& loaded, const std::vector<Setting>& chosen) {
  Text text;
  for (const Setting setting : chosen) text += paragraph(loaded.settings, setting);
  if (!loaded.file.empty()) {
    text += Text::of("file: {}, which only programs that use cuFile read; for all others environment and calls count\n",
                     loaded.file);
  }
  for (const core::Note& note : loaded.notes) {
    if (note.severity != core::Severity::idle) text += Text::of("{}\n", core::describe(note));
  }
  return text;
}

Json settings_json(const core::LoadedSettings& loaded, const std::vector<Setting>& chosen) {
  Json list = Json::array(), notes = Json::array();
  for (const Setting setting : chosen) list.push_back(setting_json(loaded.settings, setting));
  for (const core::Note& note : loaded.notes) {
    notes.push_back({{"severity", core::severity_name(note.severity)}, {"text", core::describe(note)}});
  }
  return {{"schema", 1},
          {"version", penstock_version()},
          {"file", or_null(loaded.file)},
          {"refused", loaded.must_refuse},
          {"settings", list},
          {"notes", notes}};
}

}  // namespace penstock::tools
