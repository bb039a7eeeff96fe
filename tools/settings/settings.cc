// SPDX-License-Identifier: Apache-2.0

// penstock settings: every setting of the library with its value, who said it, and what it does.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "facts/environment.h"
#include "settings/names.h"
#include "tools/common/command_line.h"
#include "tools/common/failure.h"
#include "tools/settings/listing.h"

namespace penstock::tools {
namespace {

using core::Setting;

constexpr const char* kExamples =
    "Examples:\n"
    "  penstock settings                                  the values that a program started here would have\n"
    "  penstock settings bounce_mib                       one of them\n"
    "  penstock settings properties.allow_compat_mode     one of cuFile's keys\n"
    "  penstock settings --all --json                     also keys without effect; for programs\n"
    "Exit code: 0 if a session would open with these settings, 1 if something in environment or cufile.json makes no\n"
    "sense, 2 wrong usage.";

struct SettingsSettings {
  std::string name;  // "" for all.
  bool all = false;
  bool json = false;
  bool markdown = false;
};

[[noreturn]] void refuse_name(const std::string& name) {
  std::optional<Setting> near = core::own_setting_near(name);
  if (!near) near = core::setting_near(name);
  if (!near) near = core::variable_near(name);
  const std::string proposal = near ? fmt::format("; did you mean '{}'?", public_name(*near)) : "";
  throw Failure(fmt::format("there is no setting '{}'{}", name, proposal), kUsage);
}

// Penstock's own first.
std::vector<Setting> chosen(const SettingsSettings& settings) {
  if (!settings.name.empty()) {
    const std::optional<Setting> one = facts::setting_by_any_name(settings.name);
    if (!one) refuse_name(settings.name);
    return {*one};
  }
  std::vector<Setting> list;
  for (const bool own : {true, false}) {
    for (std::size_t i = 0; i < core::kSettingCount; ++i) {
      const Setting setting = Setting::at(i);
      if (setting.is_own() == own && (setting.is_served() || settings.all)) list.push_back(setting);
    }
  }
  return list;
}

int run_settings(const SettingsSettings& settings) {
  if (settings.markdown) {
    print("{}", Text(settings_markdown()));
    return kSuccess;
  }
  const std::vector<Setting> list = chosen(settings);
  const core::LoadedSettings loaded = core::load_process_settings();
  if (settings.json) print_json(settings_json(loaded, list));
  else print("{}", settings_text(loaded, list));
  return loaded.must_refuse ? kFailed : kSuccess;
}

}  // namespace

void add_settings(CommandLine& command) {
  auto settings = std::make_shared<SettingsSettings>();
  command.option("NAME", settings->name, "One setting, by its name, its key in cufile.json or its variable [all]");
  command.flag("--all", settings->all, "Also list cuFile's keys that have no effect here, and why");
  command.flag("--json", settings->json, "Print JSON");
  command.flag("--markdown", settings->markdown, "Print the tables of the manual's page");
  command.footer(kExamples);
  command.runs([settings] { return run_settings(*settings); });
}

}  // namespace penstock::tools
