// SPDX-License-Identifier: Apache-2.0

#include "settings/settings.h"

#include <algorithm>

#include "base/invariant.h"
#include "base/kept_text.h"
#include "base/number_text.h"
#include "settings/words.h"

namespace penstock::core {
namespace {

// Cuts the first word between blanks or commas off `rest`; "" at its end.
std::string_view take_word(std::string_view& rest) {
  constexpr std::string_view kBetween = " \t,";
  rest.remove_prefix(std::min(rest.find_first_not_of(kBetween), rest.size()));
  const std::string_view word = rest.substr(0, rest.find_first_of(kBetween));
  rest.remove_prefix(word.size());
  return word;
}

std::optional<bool> parse_boolean(std::string_view text) {
  for (const char* word : {"1", "true", "yes", "on"}) {
    if (same_word(text, word)) return true;
  }
  for (const char* word : {"0", "false", "no", "off"}) {
    if (same_word(text, word)) return false;
  }
  return std::nullopt;
}

std::optional<Value> parse_numbers(std::string_view text) {
  Numbers numbers;
  for (std::string_view word = take_word(text); !word.empty(); word = take_word(text)) {
    const std::optional<std::int64_t> number = parse_number<std::int64_t>(word);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

Value parse_texts(std::string_view text) {
  Texts texts;
  for (std::string_view word = take_word(text); !word.empty(); word = take_word(text)) texts.emplace_back(word);
  return texts;
}

void append(std::string& list, const std::string& element, char between = ' ') {
  if (!list.empty()) list.push_back(between);
  list.append(element);
}

template <typename T>
const T& checked(const Value& value) {
  const T* held = std::get_if<T>(&value);
  PENSTOCK_INVARIANT(held != nullptr);
  return *held;
}

}  // namespace

const char* origin_name(Origin origin) {
  switch (origin) {
    case Origin::built_in: return "default";
    case Origin::installed:
    case Origin::file: return "file";
    case Origin::environment: return "environment";
    case Origin::call: return "call";
  }
  return "";
}

const char* severity_name(Severity severity) {
  switch (severity) {
    case Severity::idle: return "without effect";
    case Severity::note: return "note";
    case Severity::error: return "error";
  }
  return "";
}

namespace {

std::string note_text(const Note& note, const char* severity) {
  std::string text = note.place;
  if (note.line > 0) text.append(":").append(std::to_string(note.line));
  text.append(": ").append(severity);
  if (!note.key.empty()) text.append(note.key).append(": ");
  return text.append(note.sentence);
}

}  // namespace

std::string describe(const Note& note) {
  return note_text(note, (std::string(severity_name(note.severity)) + ": ").c_str());
}

Status refusal_of(const LoadedSettings& loaded) {
  const auto is_error = [](const Note& note) { return note.severity == Severity::error; };
  const auto first = std::find_if(loaded.notes.begin(), loaded.notes.end(), is_error);
  constexpr const char* kStep = "use the settings: 'penstock settings' tells what is wrong with them";
  if (first == loaded.notes.end()) return failure(Code::bad_setting, kStep);
  return failure(Code::bad_setting, kept_text("use " + note_text(*first, ""), kStep));
}

std::optional<Value> parse_value(const SettingRow& row, std::string_view text) {
  switch (row.kind) {
    case SettingKind::boolean: return parse_boolean(text);
    case SettingKind::number: return parse_number<std::int64_t>(text);
    case SettingKind::numbers: return parse_numbers(text);
    case SettingKind::texts: return among_choices(row, parse_texts(text));
    case SettingKind::text:
    case SettingKind::anything: break;
  }
  return among_choices(row, std::string(text));
}

std::optional<Value> value_of_text(const SettingRow& row, std::string_view text) {
  std::optional<Value> value = parse_value(row, text);
  if (value && !range_fault(row, *value).empty()) value.reset();
  return value;
}

std::string kind_fault(const SettingRow& row) { return "must be " + file_takes_text(row); }

Severity fault_severity(Setting setting) {
  const bool only_tells = setting.key().starts_with("logging.") || setting.key().starts_with("profile.");
  const bool matters = setting.is_served() && !only_tells;
  return matters ? Severity::error : Severity::note;
}

bool asks_in_vain(Setting setting, const Value& value) {
  static const Settings& defaults = *new Settings;  // It is not destroyed at exit, as nothing of the library is.
  return !setting.is_served() && value != defaults.value(setting);
}

std::string range_fault(const SettingRow& row, const Value& value) {
  const std::int64_t* number = std::get_if<std::int64_t>(&value);
  if (number == nullptr || (*number == 0 && row.or_zero)) return "";
  if (*number < row.low || (row.high != 0 && *number > row.high)) {
    return std::to_string(*number) + " is out of range: " + std::to_string(row.low) +
           (row.high == 0 ? std::string(" or more") : " to " + std::to_string(row.high)) +
           (row.counted.empty() ? "" : " ") + std::string(row.counted);
  }
  return *number % row.unit == 0 ? "" : std::to_string(*number) + " is not a multiple of " + std::to_string(row.unit);
}

std::string_view printed_name(Setting setting) {
  return setting.row().printed.empty() ? setting.key() : setting.row().printed;
}

Settings::Settings() {
  for (std::size_t i = 0; i < kSettingCount; ++i) {
    std::optional<Value> value = parse_value(kSettingRows[i], kSettingRows[i].initial);
    PENSTOCK_INVARIANT(value.has_value());
    values_[i] = std::move(*value);
  }
}

bool Settings::is_on(Setting setting) const { return checked<bool>(value(setting)); }
std::int64_t Settings::number(Setting setting) const { return checked<std::int64_t>(value(setting)); }
const std::string& Settings::text(Setting setting) const { return checked<std::string>(value(setting)); }
const Numbers& Settings::numbers(Setting setting) const { return checked<Numbers>(value(setting)); }
const Texts& Settings::texts(Setting setting) const { return checked<Texts>(value(setting)); }

void Settings::set(Setting setting, Value value, Origin origin) {
  PENSTOCK_INVARIANT(value.index() == values_[setting.index()].index());
  values_[setting.index()] = std::move(value);
  origins_[setting.index()] = origin;
}

std::string Settings::text_of(Setting setting) const {
  const Value& held = value(setting);
  if (const bool* flag = std::get_if<bool>(&held)) return *flag ? "true" : "false";
  if (const std::int64_t* number = std::get_if<std::int64_t>(&held)) return std::to_string(*number);
  if (const std::string* text = std::get_if<std::string>(&held)) return *text;
  std::string list;
  if (const Numbers* numbers = std::get_if<Numbers>(&held)) {
    for (const std::int64_t number : *numbers) append(list, std::to_string(number));
  } else {
    for (const std::string& text : texts(setting)) append(list, text, setting.is_own() ? ',' : ' ');
  }
  return list;
}

void set_pending(PendingValues& pending, Setting setting, Value value) {
  const auto known =
      std::find_if(pending.begin(), pending.end(), [&](const auto& one) { return one.setting == setting; });
  if (known != pending.end()) known->value = std::move(value);
  else pending.push_back({setting, std::move(value)});
}

}  // namespace penstock::core
