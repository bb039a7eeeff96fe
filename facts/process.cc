// SPDX-License-Identifier: Apache-2.0

#include "facts/process.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <variant>
#include <vector>

namespace penstock::facts {
namespace {

// The settings' loader asks a plain function, which has no state: the variables it is to see stand here.
thread_local const Variables* asked_for = nullptr;

const char* value_of(const char* name) {
  const auto found = std::find_if(asked_for->begin(), asked_for->end(), [&](auto& one) { return one.first == name; });
  return found == asked_for->end() ? nullptr : found->second.c_str();
}
// Hides the variable that names cuFile's configuration: the file that it names is on the other machine.
const char* value_but_for_the_file(const char* name) {
  return std::string_view(name) == core::kSettingsFileVariable ? nullptr : value_of(name);
}

class Environment {
 public:
  explicit Environment(const Variables& variables) {
    for (const auto& [name, value] : variables) entries_.push_back(name + "=" + value);
    for (const std::string& entry : entries_) pointers_.push_back(entry.c_str());
    pointers_.push_back(nullptr);
    asked_for = &variables;
  }
  ~Environment() { asked_for = nullptr; }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  const char* const* entries() const { return pointers_.data(); }

 private:
  std::vector<std::string> entries_;
  std::vector<const char*> pointers_;
};

core::LoadedSettings file_of(const core::Root& root) {
  const char* const named = value_of(core::kSettingsFileVariable);
  const std::string name = named == nullptr || *named == '\0' ? core::kDefaultSettingsFile : named;
  const bool is_named = name == (named == nullptr ? "" : named);
  if (const auto text = root.read(name, core::kSettingsFileBytesMax)) {
    return core::parse_settings(*text, name, is_named);
  }
  core::LoadedSettings none;
  none.must_refuse = is_named;
  if (is_named) none.notes.push_back({core::Severity::error, name, 0, "", "could not be read on that machine"});
  return none;
}

// Loads settings as core::load_settings() does: the file first, and the environment over it.
core::LoadedSettings captured_settings(const core::Root& root, const Environment& environment) {
  core::LoadedSettings loaded = file_of(root);
  core::LoadedSettings over = core::load_settings(value_but_for_the_file, {}, "", environment.entries());
  for (std::size_t i = 0; i < core::kSettingCount; ++i) {
    const core::Setting setting = core::Setting::at(i);
    if (over.settings.origin(setting) != core::Origin::environment) continue;
    loaded.settings.set(setting, over.settings.value(setting), core::Origin::environment);
  }
  loaded.must_refuse |= over.must_refuse;
  for (core::Note& note : over.notes) loaded.notes.push_back(std::move(note));
  return loaded;
}

std::string error_of(const core::LoadedSettings& loaded) {
  if (!loaded.must_refuse) return "";
  for (const core::Note& note : loaded.notes) {
    if (note.severity == core::Severity::error) return core::describe(note);
  }
  return "the settings make no sense";
}

}  // namespace

std::vector<core::Setting> Process::forcing_host_memory() const {
  std::vector<core::Setting> on = {"properties.force_compat_mode", "properties.vanilla_posix_io_mode"};
  std::erase_if(on, [&](core::Setting setting) { return !cufile.settings.is_on(setting); });
  return on;
}

std::string Process::origin_of(core::Setting setting) const {
  if (cufile.settings.origin(setting) == core::Origin::environment) return setting.row().variable;
  return cufile.file.empty() ? "the defaults" : cufile.file;
}

std::string Process::other_for_cufile() const {
  const std::vector<core::Setting> forcing = forcing_host_memory();
  const core::Setting compat = "properties.allow_compat_mode";
  if (forcing.empty() && cufile.settings.is_on(compat)) return "";
  const core::Setting setting = forcing.empty() ? compat : forcing.front();
  return fmt::format(
      "{} is {} in {}: programs that call cuFile {} host memory, as 'penstock explain' says; this was measured by "
      "Penstock's own calls, which do not read it",
      setting.key(), forcing.empty() ? "false" : "true", origin_of(setting),
      forcing.empty() ? "may not go through" : "always go through");
}

Process read_process(const core::Root& root, bool is_captured, const Variables& more) {
  Process process;
  Variables variables = variables_for_library();
  for (const auto& one : environment_settings().unknown) variables.push_back(one);
  for (const auto& one : more) {
    std::erase_if(variables, [&](const auto& known) { return known.first == one.first; });
    variables.push_back(one);
  }
  process.environment = sorted_by_use(variables);
  const Environment environment(variables);
  process.cufile = is_captured ? captured_settings(root, environment)
                               : core::load_settings(value_of, {}, core::kDefaultSettingsFile, environment.entries());
  process.error = error_of(core::load_session_settings(value_of, {}, environment.entries()));
  return process;
}

core::LoadedSettings settings_for_cufile() { return core::load_process_settings(); }
core::LoadedSettings settings_of_session() { return core::load_session_settings(core::process_environment); }

std::span<const PathSwitch> path_switches() {
  static constexpr PathSwitch kSwitches[] = {{"p2pdma", "PENSTOCK_NVIDIA_EXPORT", "on"},
                                             {"nvfs", "PENSTOCK_NVFS", "on"},
                                             {"dmabuf", "PENSTOCK_DMABUF", "on"},
                                             {"dmabuf", "PENSTOCK_DMABUF_FILES", "on", true}};
  return kSwitches;
}

bool switches_on(std::string_view value) {
  const std::optional<core::Value> known = core::parse_value(core::Setting("penstock.dmabuf").row(), value);
  return !value.empty() && (!known || std::get<bool>(*known));
}

std::vector<core::Note> notes_on(const Variables& variables) {
  const Environment environment(variables);
  return core::load_session_settings(value_of, {}, environment.entries()).notes;
}

}  // namespace penstock::facts
