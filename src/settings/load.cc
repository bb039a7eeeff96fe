// SPDX-License-Identifier: Apache-2.0

// Loads settings from their sources, in the order of precedence.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/cpus.h"
#include "base/kept_text.h"
#include "base/log.h"
#include "base/memory_room.h"
#include "base/regular_file.h"
#include "settings/names.h"
#include "settings/settings.h"
#include "settings/words.h"

namespace penstock::core {
namespace {

constexpr std::size_t kVariableBytesMax = 4096;

bool is_name_letter(char letter) {
  return (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') ||
         letter == '_';
}

// The variable's value; null if it is not set or empty.
const char* said(Environment environment, const char* name) {
  const char* text = environment(name);
  return text != nullptr && text[0] != '\0' ? text : nullptr;
}

// Replaces $NAME and ${NAME} as a shell does: some programs export the path of their file with the variable still in
// it. A variable that is not set stays as it is. `working` is the value of PWD.
std::string expanded(std::string_view text, Environment environment, const char* working) {
  std::string whole;
  while (!text.empty() && whole.size() < kVariableBytesMax) {
    const std::size_t dollar = std::min(text.find('$'), text.size());
    whole.append(text.substr(0, dollar));
    text.remove_prefix(dollar);
    if (text.empty()) break;
    const bool braced = text.starts_with("${");
    std::size_t end = braced ? 2 : 1;
    while (end < text.size() && is_name_letter(text[end])) ++end;
    const std::string name(text.substr(braced ? 2 : 1, end - (braced ? 2 : 1)));
    const bool closed = !braced || (end < text.size() && text[end] == '}');
    if (braced && closed) ++end;
    const char* value = closed && !name.empty() ? environment(name.c_str()) : nullptr;
    if (closed && name == "PWD") value = working;
    whole.append(value != nullptr ? std::string_view(value) : text.substr(0, end));
    text.remove_prefix(end);
  }
  return whole;
}

struct FileText {
  std::string text;
  std::string fault;  // "" if it could be read.
  bool is_missing = false;
};

FileText read_file(const std::string& name) {
  const RegularFile opened = open_regular_file(name);
  const bool is_other = opened.facts.st_mode != 0 && !S_ISREG(opened.facts.st_mode);
  if (is_other) return {"", "is not a regular file"};
  if (opened.error != 0)
    return {"", std::string("could not be opened: ") + ::strerrordesc_np(opened.error), opened.error == ENOENT};
  FileText file;
  file.text.resize(kSettingsFileBytesMax + 1);
  std::size_t size = 0;
  while (size < file.text.size()) {
    const ssize_t got = ::read(opened.fd.get(), file.text.data() + size, file.text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {"", std::string("could not be read: ") + ::strerrordesc_np(errno)};
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > kSettingsFileBytesMax) return {"", "is larger than 1 MiB"};
  file.text.resize(size);
  return file;
}

// The result for an unreadable file: it may forbid something, so it must not be ignored.
LoadedSettings unreadable(const std::string& name, const std::string& fault, bool named_by_user) {
  LoadedSettings loaded;
  loaded.must_refuse = true;
  const std::string remedy =
      named_by_user ? std::string("; correct or unset ") + kSettingsFileVariable : "; correct it";
  loaded.notes.push_back({Severity::error, name, 0, "", fault + remedy});
  return loaded;
}

LoadedSettings load_file(Environment environment, const char* default_file) {
  const char* named = said(environment, kSettingsFileVariable);
  if (named == nullptr) {
    const FileText file = read_file(default_file);
    if (file.is_missing) return {};
    return file.fault.empty() ? parse_settings(file.text, default_file, false)
                              : unreadable(default_file, file.fault, false);
  }
  // A process that was started in another directory than its parent may have its parent's PWD.
  std::string name = named;
  FileText file = read_file(name);
  for (const char* const working : {environment("PWD"), "."}) {
    if (!file.is_missing) break;
    name = expanded(named, environment, working);
    file = read_file(name);
  }
  return file.fault.empty() ? parse_settings(file.text, name, true) : unreadable(name, file.fault, true);
}

void report(LoadedSettings& loaded, Severity severity, const char* place, Setting setting, std::string sentence) {
  if (loaded.notes.size() >= kNotesMax) return;
  loaded.notes.push_back({severity, place, 0, std::string(setting.key()), std::move(sentence)});
}

// The last part of the message that refuses a value of a variable or of an API call.
std::string expectation(const SettingRow& row) { return "expected " + takes_text(row); }

void apply_variable(LoadedSettings& loaded, Environment environment, Setting setting) {
  const SettingRow& row = setting.row();
  const char* const text = row.variable[0] != '\0' ? said(environment, row.variable) : nullptr;
  if (text == nullptr) return;
  if (std::optional<Value> value = value_of_text(row, text)) {
    return loaded.settings.set(setting, std::move(*value), Origin::environment);
  }
  const Severity severity = fault_severity(setting);
  loaded.must_refuse |= severity == Severity::error;
  if (loaded.notes.size() >= kNotesMax) return;
  loaded.notes.push_back({severity, row.variable + std::string("=") + shown(text), 0, "", expectation(row)});
}

void apply_environment(LoadedSettings& loaded, Environment environment) {
  for (std::size_t i = 0; i < kSettingCount; ++i) apply_variable(loaded, environment, Setting::at(i));
  for (const auto& [variable, reason] : kIdleVariables) {
    if (said(environment, variable) == nullptr || loaded.notes.size() >= kNotesMax) continue;
    loaded.notes.push_back({Severity::idle, variable, 0, "", std::string(reason)});
  }
}

}  // namespace

// Eight threads copy out of the page cache nearly as fast as a PCIe 5.0 x16 link takes it: on an H200 machine 47.6 GB/s
// at 0.16 CPU seconds a GB, against 48.2 at 0.23 with sixteen. More may be worth it if CPU time does not count: an H100
// machine reached 35.4 and 45.8 (2026-11-25).
unsigned workers_for(unsigned cpus, bool is_throughput) { return std::min(cpus, is_throughput ? 16u : 8u); }

namespace {

// Sets the defaults that depend on the machine if no value was given.
void apply_machine(Settings& settings, Environment environment) {
  // Registered pages stay pinned until they are unregistered.
  constexpr std::uint64_t kCachePart = 4;
  const Setting workers("penstock.workers"), cache("penstock.registration_cache_mib");
  if (!settings.was_set(workers)) {
    const unsigned share = fair_share_of_cpus("", allowed_cpus(), ranks_on_host(environment));
    const bool is_throughput = settings.text("penstock.policy") == "throughput";
    settings.set(workers, static_cast<std::int64_t>(workers_for(share, is_throughput)), Origin::built_in);
  }
  if (!settings.was_set(cache)) {
    settings.set(cache, static_cast<std::int64_t>((memory_room().total / kCachePart) >> 20), Origin::built_in);
  }
}

bool is_known_variable(std::string_view name) {
  return name == kSettingsFileVariable ||
         std::any_of(std::begin(kSettingRows), std::end(kSettingRows),
                     [&](auto& row) { return name == row.variable; }) ||
         !idle_reason(name).empty();
}

bool names_file(std::string_view name) {
  constexpr std::string_view kPrefix = "CUFILE_", kFile = kSettingsFileVariable;
  return name.starts_with(kPrefix) && is_near(name.substr(kPrefix.size()), kFile.substr(kPrefix.size()));
}

// A misspelt name has no effect. It is an error if the setting that was meant can forbid something and would accept the
// value: another program's PENSTOCK_PATH=/opt/penstock is no list of paths.
void report_variable(LoadedSettings& loaded, std::string_view name, const char* value) {
  const bool is_cufiles = name.starts_with("CUFILE_");
  const std::optional<Setting> near = names_file(name) ? std::nullopt : variable_near(name);
  if (!is_cufiles && !near) return;  // The variable may belong to the build, not to the library.
  std::string sentence = is_cufiles ? "is not a variable of cuFile" : "is not a variable of Penstock";
  if (near) sentence += std::string("; did you mean ") + near->row().variable + "?";
  else if (names_file(name)) sentence += std::string("; did you mean ") + kSettingsFileVariable + "?";
  const bool forbids = names_file(name) || (near && near->row().forbids && value_of_text(near->row(), value));
  loaded.must_refuse |= forbids;
  if (loaded.notes.size() >= kNotesMax) return;
  loaded.notes.push_back({forbids ? Severity::error : Severity::note, shown(name), 0, "", std::move(sentence)});
}

void report_unknown_variables(LoadedSettings& loaded, const char* const* variables, bool cufiles_too) {
  for (; variables != nullptr && *variables != nullptr; ++variables) {
    const std::string_view text(*variables);
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_ours = name.starts_with("PENSTOCK_") || (cufiles_too && name.starts_with("CUFILE_"));
    if (!is_ours || is_known_variable(name)) continue;
    report_variable(loaded, name, text.size() > name.size() ? *variables + name.size() + 1 : "");
  }
}

void apply_calls(LoadedSettings& loaded, const PendingValues& pending) {
  for (const auto& [setting, value] : pending) {
    const std::string* text = std::get_if<std::string>(&value);
    std::optional<Value> fitted = text != nullptr ? parse_value(setting.row(), *text) : value;
    if (!fitted) {
      report(loaded, Severity::note, "a call", setting, kind_fault(setting.row()));
    } else if (std::string fault = range_fault(setting.row(), *fitted); !fault.empty()) {
      report(loaded, Severity::note, "a call", setting, std::move(fault) + "; it stays as it was");
    } else {
      loaded.settings.set(setting, std::move(*fitted), Origin::call);
    }
  }
}

const char* place_of(const LoadedSettings& loaded, Setting setting) {
  switch (loaded.settings.origin(setting)) {
    case Origin::installed:
    case Origin::file: return loaded.file.c_str();
    case Origin::environment: return setting.row().variable;
    case Origin::call: return "a call";
    case Origin::built_in: break;
  }
  return "default";
}

// The file's were reported with their lines when it was read.
void report_idle(LoadedSettings& loaded) {
  for (std::size_t i = 0; i < kSettingCount; ++i) {
    const Setting setting = Setting::at(i);
    const Origin origin = loaded.settings.origin(setting);
    if (origin == Origin::file || origin == Origin::installed) continue;
    if (!asks_in_vain(setting, loaded.settings.value(setting))) continue;
    report(loaded, Severity::idle, place_of(loaded, setting), setting, std::string(setting.row().idle));
  }
}

void report_log(LoadedSettings& loaded) {
  const std::string path = log_path(loaded.settings);
  if (!is_no_log(path)) return;
  const Setting path_setting("call.logfile_path"), folder_setting("logging.dir");
  const Setting setting = loaded.settings.text(path_setting).empty() ? folder_setting : path_setting;
  report(loaded, Severity::note, place_of(loaded, setting), setting,
         path + " is there already and is not a log, so nothing is written to it; move it away, or name another log");
}

}  // namespace

std::string log_path(const Settings& settings) {
  const std::string& path = settings.text("call.logfile_path");
  const std::string& directory = settings.text("logging.dir");
  if (!path.empty()) return path;
  return (directory.empty() ? "" : directory + "/") + "cufile.log";
}

Status set_pending_named(PendingValues& pending, std::string_view name, std::string_view value) {
  if (const std::optional<Setting> setting = own_setting(name)) {
    if (std::optional<Value> fitted = value_of_text(setting->row(), value)) {
      set_pending(pending, *setting, std::move(*fitted));
      return success();
    }
    const std::string step = "use " + std::string(name) + "=" + shown(value) + ": " + expectation(setting->row());
    return failure(Code::bad_setting, kept_text(step, "use a value that its setting does not take"));
  }
  return no_such_setting(name);
}

Status no_such_setting(std::string_view name) {
  std::string step = "use " + shown(name) + ": no setting has this name";
  if (const std::optional<Setting> near = own_setting_near(name)) {
    step.append("; did you mean ").append(near->name()).append("?");
  }
  return failure(Code::bad_setting, kept_text(step, "use a setting by a name that none has"));
}

LoadedSettings load_session_settings(Environment environment, const PendingValues& pending,
                                     const char* const* variables) {
  LoadedSettings loaded;
  for (std::size_t i = 0; i < kSettingCount; ++i) {
    if (Setting::at(i).is_own()) apply_variable(loaded, environment, Setting::at(i));
  }
  report_unknown_variables(loaded, variables, false);
  apply_calls(loaded, pending);
  apply_machine(loaded.settings, environment);
  return loaded;
}

LoadedSettings load_settings(Environment environment, const PendingValues& pending, const char* default_file,
                             const char* const* variables) {
  LoadedSettings loaded = load_file(environment, default_file);
  apply_environment(loaded, environment);
  report_unknown_variables(loaded, variables, true);
  apply_calls(loaded, pending);
  apply_machine(loaded.settings, environment);
  report_idle(loaded);
  report_log(loaded);
  return loaded;
}

LoadedSettings load_process_settings(const PendingValues& pending) {
  return load_settings(process_environment, pending, kDefaultSettingsFile, process_variables());
}

}  // namespace penstock::core
