// SPDX-License-Identifier: Apache-2.0

// penstock settings: every setting of the library with its value, where the value comes from, and what it does.

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cpus.h"
#include "base/memory_room.h"
#include "facts/environment.h"
#include "facts/examination.h"
#include "facts/process.h"
#include "facts/storage_kind.h"
#include "settings/names.h"
#include "settings/words.h"
#include "tools/common/command_line.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/machine_root.h"
#include "tools/common/nearest.h"
#include "tools/common/new_file.h"
#include "tools/common/outlook_page.h"
#include "tools/common/page.h"
#include "tools/common/terminal.h"
#include "tools/settings/host_plan.h"

namespace penstock::tools {
namespace {

using core::Setting;

std::string value_of(const core::Settings& settings, Setting setting) {
  const std::string text = settings.text_of(setting);
  return text.empty() ? "none" : text;
}

// Says where a value comes from. One that is not accepted leaves the default, which no session uses.
std::string source_of(const core::LoadedSettings& loaded, Setting setting) {
  const auto is_refused = [&](const core::Note& note) {
    const auto named = core::setting_named(note.key);
    return note.severity == core::Severity::error && named && named->setting.key() == setting.key();
  };
  if (std::ranges::any_of(loaded.notes, is_refused)) return "file: invalid";
  return core::origin_name(loaded.settings.origin(setting));
}

Text paragraph(const core::LoadedSettings& loaded, Setting setting) {
  const core::SettingRow& row = setting.row();
  Text text = Text::of("{} = {} ({})\n", facts::setting_name(setting), value_of(loaded.settings, setting),
                       source_of(loaded, setting));
  if (!setting.is_served()) return text += Text::of("    has no effect: {}\n", row.idle);
  text += Text::of("    {}\n    takes {}; by default {}", row.meaning, core::takes_text(row), core::default_text(row));
  if (*row.variable != '\0') text += Text::of("; variable {}", row.variable);
  if (!row.aliases.empty()) text += Text::of("; also called {}", row.aliases);
  return text += Text::of("\n");
}

Json setting_json(const core::Settings& settings, Setting setting) {
  const core::SettingRow& row = setting.row();
  return {{"name", facts::setting_name(setting)},
          {"key", row.key},
          {"variable", or_null(row.variable)},
          {"value", settings.text_of(setting)},
          {"source", core::origin_name(settings.origin(setting))},
          {"default", core::default_text(row)},
          {"takes", core::takes_text(row)},
          {"meaning", or_null(row.meaning)},
          {"without_effect", or_null(row.idle)}};
}

// One paragraph for each of the `chosen` settings, in their order.
Text settings_text(const core::LoadedSettings& loaded, const std::vector<Setting>& chosen) {
  Text text;
  const auto is_error = [](const core::Note& note) { return note.severity == core::Severity::error; };
  for (const core::Note& note : loaded.notes) {
    if (is_error(note)) text += Text::of("{}\n", core::describe(note));
  }
  for (const Setting setting : chosen) text += paragraph(loaded, setting);
  if (!loaded.file.empty()) {
    text += Text::of("file: {}, which only programs that use cuFile read; for all others environment and calls count\n",
                     loaded.file);
  } else {
    text += Text::of("file: none: {} names none, and there is no {}\n", core::kSettingsFileVariable,
                     core::kDefaultSettingsFile);
  }
  for (const core::Note& note : loaded.notes) {
    // A key without effect is among the settings of --all, a variable without a key is nowhere else.
    const bool is_listed = note.severity == core::Severity::idle && !note.key.empty();
    if (!is_listed && !is_error(note)) text += Text::of("{}\n", core::describe(note));
  }
  return text;
}

Json settings_json(const core::LoadedSettings& loaded, const std::vector<Setting>& chosen, const Json& changes) {
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
          {"notes", notes},
          {"paths_here", changes}};
}

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

// The settings that Penstock supports, with their effects.
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
    text += fmt::format("| {} | {} | {} | {} | {} |\n", code(facts::setting_name(setting)), code(row.variable),
                        core::takes_text(row), core::default_text(row), meaning);
  }
  return text;
}

// Keys and variables without an effect, sorted by the reason.
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
  for (const auto& [variable, reason] : core::kIdleVariables) add_code(names_of(reason), variable);
  std::string text = "| without effect | because |\n|---|---|\n";
  for (const auto& [reason, names] : reasons) text += fmt::format("| {} | {} |\n", names, reason);
  return text;
}

// The tables of docs/reference/settings.md, which do not show the values of this machine.
std::string settings_markdown() {
  return "### Penstock's settings\n\n" + served_table(true) + "\n### cuFile's keys that have an effect\n\n" +
         served_table(false) + "\n### cuFile's keys and variables that have none\n\n" + idle_table();
}

constexpr const char* kSettingsExamples =
    "Examples:\n"
    "  penstock settings                                  the values that a program started here would have\n"
    "  penstock settings bounce_mib                       one of them\n"
    "  penstock settings properties.allow_compat_mode     one of cuFile's keys\n"
    "  penstock settings compat                           those that say something of it\n"
    "  penstock settings --changed                        those that are not at their defaults\n"
    "  penstock settings ./cufile.json                    those that this file would change, and the paths here with "
    "it\n"
    "  penstock settings --write conf                     a cufile.json and an environment for this machine\n"
    "  penstock settings --all --json                     also keys without effect; for programs\n"
    "Exit code: 0 if a session would open with these settings, 1 if something in environment or cufile.json makes no "
    "sense, 2 wrong usage, also words that no setting has.";

struct SettingsSettings {
  std::vector<std::string> words;  // A name, words that settings say, or a cufile.json; none for all.
  std::string file;                // That cufile.json.
  std::string folder;              // For files of this machine; "" for none.
  bool overwrite = false;
  bool all = false;
  bool changed = false;
  bool json = false;
  bool markdown = false;
};

// The name of a setting and what is said of it.
std::string said_of(Setting setting) {
  const core::SettingRow& row = setting.row();
  return fmt::format("{} {} {} {} {}", row.key, row.variable, row.aliases, row.meaning, row.idle);
}

// Penstock's own settings come first. Words find also keys without effect.
std::vector<Setting> those_that_say(const std::vector<std::string>& words, bool all) {
  std::vector<Setting> list;
  for (const bool own : {true, false}) {
    for (std::size_t i = 0; i < core::kSettingCount; ++i) {
      const Setting setting = Setting::at(i);
      const bool is_asked_for = all || !words.empty() || setting.is_served();
      if (setting.is_own() != own || !is_asked_for) continue;
      const std::string said = said_of(setting);
      if (std::ranges::all_of(words, [&](const std::string& word) { return contains(said, word); }))
        list.push_back(setting);
    }
  }
  return list;
}

[[noreturn]] void refuse_word(const std::string& word) {
  const std::string near = proposal_or_variable(word, facts::setting_names());
  throw Failure(fmt::format("no setting has '{}' in its name or sentence{}", word,
                            near.empty() ? "; 'penstock settings --all' lists them" : near),
                kUsage);
}

// The settings that have all words; where none has, those that have any of them.
std::vector<Setting> chosen(const SettingsSettings& settings) {
  if (settings.words.size() == 1) {
    if (const std::optional<Setting> one = facts::setting_by_any_name(settings.words.front())) return {*one};
  }
  std::vector<std::string> words = settings.words;
  const auto tells = [](const std::string& word) { return word.size() > 2; };
  if (std::ranges::any_of(words, tells)) std::erase_if(words, std::not_fn(tells));  // "io threads"
  std::vector<Setting> list = those_that_say(words, settings.all);
  if (!list.empty()) return list;
  for (const std::string& word : words) {  // No setting has all of them.
    const std::vector<Setting> of_word = those_that_say({word}, settings.all);
    if (of_word.empty()) refuse_word(word);
    std::ranges::copy_if(of_word, std::back_inserter(list),
                         [&](Setting one) { return std::ranges::find(list, one) == list.end(); });
  }
  return list;
}

// Tells of a variable that is no setting, since NVIDIA's library alone knows it.
int tell_idle(const SettingsSettings& settings, std::string_view reason) {
  const std::string& name = settings.words.front();
  const Json told = {{"name", name}, {"without_effect", reason}};
  if (settings.json) print_json({{"settings", Json::array({told})}});
  else print("{}\n    has no effect: {}\n", name, reason);
  return kSuccess;
}

// Takes a cufile.json that is named in place of words. The settings of a program with it are then told, also those that
// have no effect.
void take_file(SettingsSettings& settings) {
  if (settings.words.size() != 1 || !settings.words.front().ends_with(".json")) return;
  settings.file = std::exchange(settings.words, {}).front();
  (void)open_file(settings.file, O_RDONLY);  // A session would say that the variable names no file.
  setenv(core::kSettingsFileVariable, settings.file.c_str(), 1);
  settings.changed = true;
}

facts::Examination examined_with(const std::string& file) {
  set_variables({{core::kSettingsFileVariable, file}});
  return facts::examine(facts::read_machine(open_machine_root(""), ""));
}

// The path of a place's files, and why it is another than without the file.
std::string change_at(const facts::Outlook& with, const facts::Outlook& without) {
  const auto name_of = [](const facts::PathOutlook* path) {
    return path == nullptr ? std::string("no path") : fmt::format("by {}", penstock_path_name(path->path));
  };
  const facts::PathOutlook *const now = with.first_usable(), *const before = without.first_usable();
  const std::string way = name_of(now) + (now == nullptr ? "" : mover_of(now->path));
  if (name_of(now) == name_of(before)) return way + ", as without this file";
  const std::string reason = before == nullptr ? "" : with.of(before->path).sentence();
  return fmt::format("{}; without this file {}{}{}", way, name_of(before), reason.empty() ? "" : ": ", reason);
}

// How bytes go on this machine in a program of cuFile with the file: for each place that holds data.
Json changes_by(const std::string& file) {
  const facts::Examination without = examined_with(""), with = examined_with(file);
  Json changes = Json::object();
  for (std::size_t i = 0; i < std::min(with.places.size(), without.places.size()); ++i) {
    const core::FileSystem& place = *with.places[i].place;
    if (facts::holds_data(place)) changes[place.mount.mount_point] = change_at(with.places[i], without.places[i]);
  }
  if (changes.empty()) changes["any file"] = change_at(with.whole, without.whole);
  return changes;
}

Text changes_text(const Json& changes) {
  Page page;
  page.section("How bytes of GPU memory go on this machine, in a program of cuFile with this file");
  for (const auto& [place, way] : changes.items()) page.wrap(fmt::format("  {}: ", place), way.get<std::string>());
  return page.shown();
}

Text left_out_text(std::size_t keys) {
  return Text::of("and {} {} of it that {} no effect; --all lists {}\n", keys, keys == 1 ? "key" : "keys",
                  keys == 1 ? "has" : "have", keys == 1 ? "it" : "them");
}

// Writes a cufile.json and an environment for this machine into the folder, and tells each value with its reason.
int write_files(const SettingsSettings& settings) {
  namespace fs = std::filesystem;
  std::error_code failure;
  fs::create_directory(settings.folder, failure);
  const fs::path folder = fs::canonical(settings.folder, failure);
  if (failure) throw Failure(fmt::format("{}: {}", settings.folder, failure.message()));
  const std::string file = folder / "cufile.json", environment = folder / "penstock.env";
  const unsigned cpus = core::fair_share_of_cpus("", core::allowed_cpus(), 1);
  const HostPlan plan = plan_for(examined_with(""), cpus, core::memory_room().total, file);
  Text text;
  Json values = Json::array();
  for (const std::vector<PlannedValue>* const some : {&plan.keys, &plan.variables}) {
    for (const PlannedValue& one : *some) {
      text += Text::of("{} = {}\n    {}\n", one.name, one.value, one.reason);
      values.push_back({{"name", one.name}, {"value", one.value}, {"reason", one.reason}});
    }
  }
  for (const std::string& path : plan.left_off) text += Text::of("{}\n", path);
  write_file(file, cufile_json_of(plan), settings.overwrite);
  write_file(environment, environment_of(plan), settings.overwrite);
  if (settings.json) print_json({{"files", {file, environment}}, {"values", values}, {"left_off", plan.left_off}});
  else print("{}files: {}, {}; what they change: penstock settings {}\n", text, file, environment, file);
  return kSuccess;
}

int run_settings(SettingsSettings& settings) {
  if (!settings.folder.empty()) return write_files(settings);
  take_file(settings);
  if (settings.markdown) {
    print_document(Text(settings_markdown()));
    return kSuccess;
  }
  const std::string name = settings.words.size() == 1 ? settings.words.front() : "";
  if (const std::string_view reason = facts::reason_without_effect(name); !reason.empty())
    return tell_idle(settings, reason);
  std::vector<Setting> list = settings.file.empty() ? chosen(settings) : those_that_say({}, true);
  const core::LoadedSettings loaded = facts::settings_for_cufile();
  if (settings.changed) {
    std::erase_if(list, [&](Setting one) { return loaded.settings.origin(one) == core::Origin::built_in; });
  }
  Json changes;
  std::size_t left_out = 0;
  if (!settings.file.empty()) {
    changes = changes_by(settings.file);
    const auto asks_nothing = [&](Setting one) {
      return !one.is_served() && !core::asks_in_vain(one, loaded.settings.value(one));
    };
    if (!settings.all) left_out = std::erase_if(list, asks_nothing);
  }
  if (settings.json) print_json(settings_json(loaded, list, changes));
  else
    print("{}{}{}", settings_text(loaded, list), left_out == 0 ? Text() : left_out_text(left_out),
          changes.is_null() ? Text() : changes_text(changes));
  return loaded.must_refuse ? kFailed : kSuccess;
}

}  // namespace

void add_settings(CommandLine& command) {
  auto settings = std::make_shared<SettingsSettings>();
  const Option words = command.option(
      "WORD", settings->words,
      "A setting's name, key in cufile.json or variable; words that its name or sentence has; or a file, "
      "whose name ends in .json, to be taken for cufile.json [all]");
  command.flag("--changed", settings->changed, "List only settings that a variable or cufile.json gives");
  command.flag("--all", settings->all, "Also list cuFile's keys that have no effect here, and why");
  Option write = command.option("--write", settings->folder,
                                "Write DIR/cufile.json and DIR/penstock.env for this machine, each value "
                                "with its reason");
  write.value_name("DIR").excludes(words);
  command.flag("--overwrite", settings->overwrite, "Replace files that are in DIR").needs(write);
  command.flag("--json", settings->json, "Print JSON");
  command.flag("--markdown", settings->markdown, "Print the tables of the manual's page");
  command.footer(kSettingsExamples);
  command.runs([settings] { return run_settings(*settings); });
}

}  // namespace penstock::tools
