// SPDX-License-Identifier: Apache-2.0

// The settings from cufile.json, the environment and calls: a value for every row of the table, and its source. A
// setting that was wrong, unknown or without effect is kept as a note, for the log and for `penstock settings`, `check`
// and gdscheck to print. Programs of cuFile are served by all three; sessions of penstock.h read no file, and
// Penstock's own settings alone.
//
// Precedence: call over environment over file over default. In a file or variable that the user named, a value that
// cannot be parsed or is out of range is an error, and the driver does not open; in /etc/cufile.json it is reported and
// the default holds. Settings that may forbid something are stricter (SettingRow::forbids): a file that cannot be read,
// a misspelt, invalid or contradictory key keeps the driver closed in either place. A known key in the wrong section
// still applies, and is reported, like a call's number out of range, an unknown key and a duplicate key.
//
// To list a configuration as gdscheck does:
//   const LoadedSettings loaded = load_settings(process_environment);
//   for (std::size_t i = 0; i < kSettingCount; ++i) {
//     print("{} : {}", printed_name(Setting::at(i)), loaded.settings.text_of(Setting::at(i)));   // Not "call.*".
//   }
//   for (const Note& note : loaded.notes) print("{}", describe(note));
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/environment.h"
#include "base/status.h"
#include "settings/table.h"

namespace penstock::core {

using Numbers = std::vector<std::int64_t>;
// Not the vector itself: a std::variant of types that libstdc++ 12 knows to move without failing is destroyed without
// having been made where memory is short for a copy.
struct Texts : std::vector<std::string> {
  using std::vector<std::string>::vector;
};
// In the order of SettingKind; `anything` is held as a text.
using Value = std::variant<bool, std::int64_t, std::string, Numbers, Texts>;

// `installed` is /etc/cufile.json, which packages install with NVIDIA's defaults.
enum class Origin : std::uint8_t { built_in, installed, file, environment, call };
const char* origin_name(Origin origin);  // "default", "file", "file", "environment", "call"

enum class Severity : std::uint8_t {
  idle,   // It asks for something that has no effect here.
  note,   // The input is ignored, without consequence: an unknown key, a number out of range in an API call, a value
          // that a later one replaces.
  error,  // It could not be understood, or is out of range.
};
const char* severity_name(Severity severity);  // "without effect", "note", "error"

struct Note {
  Severity severity = Severity::note;
  std::string place;     // A file's name, a variable, perhaps with its value, or "a call".
  int line = 0;          // The line in the file; 0 for other places.
  std::string key;       // The key in the file's own words; "" if the note is about no key.
  std::string sentence;  // "is not a key of cuFile's configuration"
};
// "/etc/cufile.json:12: error: properties.allow_compat_mode: must be true or false"
std::string describe(const Note& note);

// The beginning of the sentence about a key in another section than its own.
constexpr std::string_view kTakenAs = "is taken as ";

constexpr std::size_t kNotesMax = 200;  // The most notes of one load; further notes are dropped.

class Settings {
 public:
  Settings();  // Defaults.

  bool is_on(Setting setting) const;
  std::int64_t number(Setting setting) const;
  const std::string& text(Setting setting) const;
  const Numbers& numbers(Setting setting) const;
  const Texts& texts(Setting setting) const;
  const Value& value(Setting setting) const { return values_[setting.index()]; }
  Origin origin(Setting setting) const { return origins_[setting.index()]; }
  bool was_set(Setting setting) const { return origin(setting) != Origin::built_in; }
  std::string text_of(Setting setting) const;  // "true", "128", "4 1024 16384"; for Penstock's own, "bounce,host".

  void set(Setting setting, Value value, Origin origin);

 private:
  std::array<Value, kSettingCount> values_;
  std::array<Origin, kSettingCount> origins_{};
};

std::string_view printed_name(Setting setting);
// Parses a value of this row's kind as a variable has it: 1, true, yes, on; 0, false, no, off; a decimal number;
// elements of a list separated by blanks. Nothing if the text is none.
std::optional<Value> parse_value(const SettingRow& row, std::string_view text);
// Parses a value like parse_value(), and returns nothing for a number out of range.
std::optional<Value> value_of_text(const SettingRow& row, std::string_view text);
// The severity of a value that is not understood: a note if the setting is not supported, or concerns only the log
// or the statistics.
Severity fault_severity(Setting setting);
// True for a value that asks for something that has no effect here: not the default, of a setting that is not
// supported.
bool asks_in_vain(Setting setting, const Value& value);
// Describes what is wrong with a value; "" if nothing is.
std::string range_fault(const SettingRow& row, const Value& value);
// "must be true or false"
std::string kind_fault(const SettingRow& row);

// A value that a call has set while the driver was closed. If one key has two, the later counts.
struct PendingValue {
  Setting setting;
  Value value;
};
using PendingValues = std::vector<PendingValue>;
void set_pending(PendingValues& pending, Setting setting, Value value);
// Stages one of Penstock's own settings by its short name ("bounce_mib"), with a value as the environment has it. Fails
// with bad_setting, which names both and what was expected; nothing is pending then.
Status set_pending_named(PendingValues& pending, std::string_view name, std::string_view value);
// Makes a bad_setting for a name that none of Penstock's own settings has; it names the setting that was probably
// meant.
Status no_such_setting(std::string_view name);

struct LoadedSettings {
  Settings settings;
  std::vector<Note> notes;
  std::string file;  // The file that was read, or "".

  // True if there is an error in a place that the user named, or in a setting that may forbid something: the driver
  // must not open.
  bool must_refuse = false;
};

// Makes a bad_setting of the first error for which it must refuse.
Status refusal_of(const LoadedSettings& loaded);

// Parses the text of a cufile.json over the defaults. No input crashes it. If the text is no JSON, or a supported key
// has the wrong type, there is an error among the notes.
LoadedSettings parse_settings(std::string_view text, std::string_view file_name, bool named_by_user);

// The path of the log, from the settings.
std::string log_path(const Settings& settings);

constexpr const char* kDefaultSettingsFile = "/etc/cufile.json";
constexpr const char* kReportVariable = "PENSTOCK_REPORT";
// `penstock run` makes a folder for reports whose name begins so; libcufile leaves a file PID.loaded there.
constexpr const char* kRunFolder = "penstock-run-";
constexpr const char* kLoadedMark = ".loaded";
constexpr const char* kSettingsFileVariable = "CUFILE_ENV_PATH_JSON";  // It names another file.
constexpr std::size_t kSettingsFileBytesMax = 1 << 20;

// Loads file, environment and calls together. `variables` is the whole environment, as "NAME=VALUE" with a null at the
// end: a variable that begins with CUFILE_ and means nothing, or that is nearly one of Penstock's, becomes a note; null
// if there is no environment to look through. Finds the defaults that depend on the machine.
LoadedSettings load_settings(Environment environment, const PendingValues& pending = {},
                             const char* default_file = kDefaultSettingsFile, const char* const* variables = nullptr);
LoadedSettings load_process_settings(const PendingValues& pending = {});

// The threads for large requests if no setting says how many, for a rank with so many CPUs of its own.
unsigned workers_for(unsigned cpus, bool is_throughput);

// Loads the settings of a session of penstock.h: from environment and calls, without a file, and only Penstock's own
// variables.
LoadedSettings load_session_settings(Environment environment, const PendingValues& pending = {},
                                     const char* const* variables = nullptr);

}  // namespace penstock::core
