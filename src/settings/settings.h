// SPDX-License-Identifier: Apache-2.0

// The settings from cufile.json, the environment and calls: a value for every row of the table, and who said it. A
// setting that was wrong, unknown or without effect is kept as a note, for the log and for `penstock settings`, `check`
// and gdscheck to print. Programs of cuFile are served by all three; sessions of penstock.h read no file, and
// Penstock's own settings alone.
//
// Precedence: call over environment over file over default. A value that cannot be understood, in a file or variable
// that the user named, or is out of range there, is an error, and the driver does not open; in /etc/cufile.json it is
// reported and the default holds. Settings that may forbid something are stricter (SettingRow::forbids): a file that
// cannot be read, a key that is misspelt, has no sense or is contradicted keeps the driver closed in either place. A
// known key in another section than its own is taken as meant. It is reported, like a call's number out of range, an
// unknown key and a key given twice.
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
using Texts = std::vector<std::string>;
// In the order of SettingKind; `anything` is a text.
using Value = std::variant<bool, std::int64_t, std::string, Numbers, Texts>;

// `installed`: /etc/cufile.json, which packages bring along with NVIDIA's defaults in it.
enum class Origin : std::uint8_t { built_in, installed, file, environment, call };
const char* origin_name(Origin origin);  // "default", "file", "file", "environment", "call"

enum class Severity : std::uint8_t {
  idle,   // Asks for something that is without effect here.
  note,   // Not taken, and nothing depends on it: an unknown key, a call's number out of range, the earlier of two.
  error,  // Could not be understood, or is out of range.
};
const char* severity_name(Severity severity);  // "without effect", "note", "error"

struct Note {
  Severity severity = Severity::note;
  std::string place;     // A file's name, a variable, which may have its value behind it, or "a call".
  int line = 0;          // The file's; 0 for other places.
  std::string key;       // In the file's words; "" if no key is meant.
  std::string sentence;  // "is not a key of cuFile's configuration"
};
// "/etc/cufile.json:12: error: properties.allow_compat_mode: must be true or false"
std::string describe(const Note& note);

// How the sentence of a key in another section than its own begins.
constexpr std::string_view kTakenAs = "is taken as ";

constexpr std::size_t kNotesMax = 200;  // The most in one load; the rest is dropped.

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
// A value of this row's kind from text as a variable has it: 1, true, yes, on; 0, false, no, off; a decimal number;
// list elements between blanks. Nothing where it is none.
std::optional<Value> parse_value(const SettingRow& row, std::string_view text);
// The same, and nothing for a number out of range.
std::optional<Value> value_of_text(const SettingRow& row, std::string_view text);
// How much a value that is not understood matters: where it is not served, or about the log alone, it is a note.
Severity fault_severity(Setting setting);
// The fault of a value as a sentence, or "".
std::string range_fault(const SettingRow& row, const Value& value);
// "must be true or false"
std::string kind_fault(const SettingRow& row);

// Values that calls have set while the driver was closed; if there are two for one key, the later counts.
struct StagedValue {
  Setting setting;
  Value value;
};
using Staged = std::vector<StagedValue>;
void stage(Staged& staged, Setting setting, Value value);
// One of Penstock's own by its short name ("bounce_mib"), its value as the environment has it. Fails with bad_setting,
// which names both and what was expected; nothing is staged then.
Status stage_named(Staged& staged, std::string_view name, std::string_view value);
// bad_setting for a name that none of Penstock's own settings has; names the one that was probably meant.
Status no_such_setting(std::string_view name);

struct LoadedSettings {
  Settings settings;
  std::vector<Note> notes;
  std::string file;  // The one that was read, or "".

  bool must_refuse = false;  // An error in a place that the user named, or in what may forbid something: the driver
                             // must not open.
};

// Why it must refuse: bad_setting, with the first of its errors.
Status refusal_of(const LoadedSettings& loaded);

// The text of a cufile.json over the defaults. No input crashes it. Where the text is no JSON, or a served key has
// another type than it should, there is an error among the notes.
LoadedSettings parse_settings(std::string_view text, std::string_view file_name, bool named_by_user);

// The log's path, by the settings.
std::string log_path(const Settings& settings);

constexpr const char* kDefaultSettingsFile = "/etc/cufile.json";
constexpr std::size_t kSettingsFileBytesMax = 1 << 20;

// File, environment and calls together. `variables` is the whole environment, as "NAME=VALUE" with a null at the end: a
// variable that begins with CUFILE_ and means nothing, or is nearly one of Penstock's, becomes a note; null if there is
// none to look through. Defaults that depend on the machine are found out.
LoadedSettings load_settings(Environment environment, const Staged& staged = {},
                             const char* default_file = kDefaultSettingsFile, const char* const* variables = nullptr);
LoadedSettings load_process_settings(const Staged& staged = {});

// Threads for large requests if no setting says how many, for a rank that has so many CPUs for itself.
unsigned workers_for(unsigned cpus, bool is_throughput);

// For a session of penstock.h: environment and calls, no file, and of the variables Penstock's own alone.
LoadedSettings load_session_settings(Environment environment, const Staged& staged = {},
                                     const char* const* variables = nullptr);

}  // namespace penstock::core
