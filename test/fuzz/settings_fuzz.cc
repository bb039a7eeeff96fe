// SPDX-License-Identifier: Apache-2.0

// The text of a cufile.json: the input's first byte says whether the user named it, the rest is the text. What it ought
// to mean comes from a second reading, by a parser that keeps the whole tree.
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/fuzz.h"
#include "settings/settings.h"
#include "settings/words.h"

namespace penstock::fuzz {
namespace {

using namespace core;
using Json = nlohmann::json;

constexpr std::size_t kNestingMax = 32;
constexpr std::size_t kNoteBytesMax = 1000;  // A key, a sentence and a little of the file's own text.

bool is_word(std::string_view words, std::string_view word) {
  return word.find(' ') == std::string_view::npos &&
         (" " + std::string(words) + " ").find(" " + std::string(word) + " ") != std::string::npos;
}

std::string_view last_word(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// How a name comes to mean a row, the best way last; 0 where it does not.
enum Standing { nothing, misplaced, older, own };
Standing standing_of(const SettingRow& row, std::string_view name) {
  if (row.key.starts_with("call.")) return nothing;
  if (row.key == name) return own;
  if (!name.empty() && is_word(row.aliases, name)) return older;
  return nothing;
}

bool ends_like(const SettingRow& row, std::string_view last) {
  if (row.key.starts_with("call.")) return false;
  bool is_it = last_word(row.key) == last;
  for (std::string_view rest = row.aliases; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    is_it |= last_word(rest.substr(0, end)) == last;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return is_it;
}

bool is_section(std::string_view name) {
  const std::string prefix = std::string(name) + ".";
  return std::any_of(std::begin(kSettingRows), std::end(kSettingRows), [&](const SettingRow& row) {
    return row.key.starts_with(prefix) && !row.key.starts_with("call.");
  });
}

struct Meaning {
  std::size_t row = kSettingCount;
  Standing standing = nothing;
};

// A name of several words that only one row has means that row in every section.
Meaning meaning_of(std::string_view name) {
  for (std::size_t i = 0; i < kSettingCount; ++i) {
    if (const Standing standing = standing_of(kSettingRows[i], name); standing != nothing) return {i, standing};
  }
  const std::string_view last = last_word(name);
  if (last.find('_') == std::string_view::npos || is_section(name)) return {};
  Meaning found;
  for (std::size_t i = 0; i < kSettingCount; ++i) {
    if (!ends_like(kSettingRows[i], last)) continue;
    if (found.standing != nothing) return {};
    found = {i, misplaced};
  }
  return found;
}

struct Given {
  std::string name;
  Json value;
  Meaning meaning = meaning_of(name);
};

// Every value under its full name, in the order of the file; false where it is nested more deeply than is read.
// Tells keys that are given twice from one another, which a tree does not. What is in the table that stands for a key's
// value is passed over.
class Flattener : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(value); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool key(std::string& name) override {
    levels_.back().name = name;
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

  std::vector<Given> given;  // Objects as well, without what is in them.

 private:
  struct Level {
    Json value;
    std::string name;  // Of the latest key.
    bool is_of_a_key = false;
  };

  bool in_a_value() const {
    return std::any_of(levels_.begin(), levels_.end(),
                       [](const Level& level) { return level.value.is_array() || level.is_of_a_key; });
  }
  std::string full_name() const {
    std::string name;
    for (const Level& level : levels_) name.append(level.name).push_back('.');
    name.pop_back();
    return name;
  }
  bool add(Json value) {
    if (levels_.empty()) return false;
    if (levels_.back().value.is_array()) levels_.back().value.push_back(std::move(value));
    else if (!in_a_value()) given.push_back({full_name(), std::move(value)});
    return true;
  }
  bool open(Json value) {
    if (levels_.size() == kNestingMax || (levels_.empty() && value.is_array())) return false;
    if (value.is_object() && !levels_.empty() && !in_a_value()) given.push_back({full_name(), value});
    const bool is_of_a_key = value.is_object() && !levels_.empty() && meaning_of(full_name()).standing != nothing;
    levels_.push_back({std::move(value), "", is_of_a_key});
    return true;
  }
  bool close() {
    Json value = std::move(levels_.back().value);
    levels_.pop_back();
    if (levels_.empty() || (value.is_object() && !in_a_value())) return true;
    return add(std::move(value));
  }

  std::vector<Level> levels_;
};

bool is_text(const Json& value) {
  return value.is_string() && value.get_ref<const std::string&>().find('\0') == std::string::npos;
}
bool is_whole(const Json& value) {
  return value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX);
}

template <typename List>
std::optional<Value> list_of(const Json& value, bool (*fits)(const Json&)) {
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), fits)) return std::nullopt;
  List elements;
  for (const Json& element : value) elements.push_back(element.get<typename List::value_type>());
  return elements;
}

// What the value is for this row; nothing where it is of another kind.
std::optional<Value> meaning(const SettingRow& row, const Json& value) {
  switch (row.kind) {
    case SettingKind::boolean: return value.is_boolean() ? std::optional<Value>(value.get<bool>()) : std::nullopt;
    case SettingKind::number: return is_whole(value) ? std::optional<Value>(value.get<std::int64_t>()) : std::nullopt;
    case SettingKind::text:
      return is_text(value) ? parse_value(row, value.get_ref<const std::string&>()) : std::nullopt;
    case SettingKind::numbers: return list_of<Numbers>(value, is_whole);
    case SettingKind::texts: {
      std::optional<Value> texts = list_of<Texts>(value, is_text);
      return texts ? among_choices(row, std::move(*texts)) : std::nullopt;
    }
    case SettingKind::anything: break;
  }
  return std::nullopt;
}

// Notes tell a key by its name in the file.
bool is_noted(const LoadedSettings& loaded, Severity severity, const std::string& name) {
  const std::string key = shown(name);
  return loaded.notes.size() == kNotesMax ||
         std::any_of(loaded.notes.begin(), loaded.notes.end(),
                     [&](const Note& note) { return note.severity == severity && note.key == key; });
}

// Against the file's values of one setting, in their order.
void check_setting(const LoadedSettings& loaded, bool named_by_user, Setting setting, const std::vector<Given>& given) {
  const SettingRow& row = setting.row();
  if (row.kind == SettingKind::anything) return;
  static const Settings kDefaults;
  Value wanted = kDefaults.value(setting);
  bool set = false;
  Standing best = nothing;
  for (const Given& one : given) {
    if (one.meaning.row != setting.index()) continue;
    const Standing standing = one.meaning.standing;
    const std::optional<Value> value = meaning(row, one.value);
    const bool fits = value && range_fault(row, *value).empty();
    if (row.forbids && (!fits || (best != nothing && *value != loaded.settings.value(setting)))) {
      FUZZ_CHECK(is_noted(loaded, Severity::error, one.name));
      FUZZ_CHECK(loaded.must_refuse);
      if (fits) return;  // Contradicted: which of the two holds does not matter.
      continue;
    }
    if (standing < best) continue;
    best = standing;
    if (fits) {
      wanted = *value;
      set = true;
    } else {
      FUZZ_CHECK(is_noted(loaded, standing == misplaced ? Severity::note : fault_severity(setting), one.name));
      FUZZ_CHECK(fault_severity(setting) != Severity::error || standing == misplaced || !named_by_user ||
                 loaded.must_refuse);
    }
  }
  FUZZ_CHECK(loaded.settings.value(setting) == wanted);
  FUZZ_CHECK(loaded.settings.was_set(setting) == set);
}

void check_notes(const LoadedSettings& loaded, bool named_by_user) {
  FUZZ_CHECK(loaded.notes.size() <= kNotesMax);
  bool error = false;
  for (const Note& note : loaded.notes) {
    const std::string sentence = describe(note);
    FUZZ_CHECK(sentence.size() <= kNoteBytesMax);
    FUZZ_CHECK(std::none_of(sentence.begin(), sentence.end(),
                            [](char letter) { return static_cast<unsigned char>(letter) < ' ' || letter == '\x7f'; }));
    FUZZ_CHECK(note.line >= 1);
    error |= note.severity == Severity::error;
  }
  FUZZ_CHECK(!error || !named_by_user || loaded.must_refuse);
  FUZZ_CHECK(!loaded.must_refuse || error || loaded.notes.size() == kNotesMax);
}

// Whatever a setting is, its text says the same again; but for lists whose elements hold what divides them.
void check_texts(const Settings& settings) {
  for (std::size_t i = 0; i < kSettingCount; ++i) {
    const Setting setting = Setting::at(i);
    const Value& value = settings.value(setting);
    const auto divides = [](const std::string& text) {
      return text.empty() || text.find_first_of(" \t,") != std::string::npos;
    };
    const Texts* texts = std::get_if<Texts>(&value);
    if (texts != nullptr && std::any_of(texts->begin(), texts->end(), divides)) continue;
    if (!settings.was_set(setting)) continue;  // The default of a text need not be among its words.
    const std::optional<Value> again = parse_value(setting.row(), settings.text_of(setting));
    FUZZ_CHECK(again.has_value() && *again == value);
  }
}

void run(bool named_by_user, std::string_view text) {
  const LoadedSettings loaded = parse_settings(text, "cufile.json", named_by_user);
  check_notes(loaded, named_by_user);
  check_texts(loaded.settings);

  Flattener flattener;
  const bool is_json = Json::sax_parse(text.begin(), text.end(), &flattener, Json::input_format_t::json, true, true);
  if (!is_json) flattener.given.clear();
  FUZZ_CHECK(is_json || (is_noted(loaded, Severity::error, "") && loaded.must_refuse));
  for (const Given& one : flattener.given) {
    if (!is_section(one.name) || one.value.is_object()) continue;
    FUZZ_CHECK(is_noted(loaded, Severity::error, one.name) && loaded.must_refuse);
  }
  for (std::size_t i = 0; i < kSettingCount; ++i) {
    check_setting(loaded, named_by_user, Setting::at(i), flattener.given);
  }
}

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  penstock::fuzz::run(data[0] % 2 == 0, {reinterpret_cast<const char*>(data) + 1, size - 1});
  return 0;
}
