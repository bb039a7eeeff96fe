// SPDX-License-Identifier: Apache-2.0

#include "settings/words.h"

#include <algorithm>

#include "base/printable.h"
#include "core/paths.h"
#include "device/providers.h"

namespace penstock::core {
namespace {

char lower(char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter; }

std::string_view words_of(const SettingRow& row) { return row.choices != nullptr ? row.choices() : row.words; }

std::optional<std::string> word_of(std::string_view words, std::string_view text) {
  std::optional<std::string> found;
  any_word(words, [&](std::string_view word) {
    if (same_word(word, text)) found = word;
    return found.has_value();
  });
  return found;
}

std::optional<Value> text_among(const SettingRow& row, std::string text) {
  if (text == row.initial) return text;  // The default need not be among the words.
  if (const std::string_view words = words_of(row); !words.empty()) {
    if (std::optional<std::string> word = word_of(words, text)) return std::move(*word);
    return std::nullopt;
  }
  if (row.takes != nullptr && !row.takes(text)) return std::nullopt;
  if (row.absolute && !text.starts_with('/')) return std::nullopt;
  return text;
}

// Accepts some of the words, none twice; or the default's word alone.
std::optional<Value> texts_among(const SettingRow& row, Texts texts) {
  const std::string_view words = words_of(row);
  if (words.empty()) return texts;
  if (texts.size() == 1 && same_word(texts.front(), row.initial)) return Texts{std::string(row.initial)};
  Texts found;
  for (const std::string& text : texts) {
    std::optional<std::string> word = word_of(words, text);
    if (!word || std::find(found.begin(), found.end(), *word) != found.end()) return std::nullopt;
    found.push_back(std::move(*word));
  }
  if (found.empty()) return std::nullopt;
  return found;
}

std::string joined(std::string_view words, std::string_view last) {
  std::string list;
  any_word(words, [&](std::string_view word) {
    const bool is_last = word.data() + word.size() == words.data() + words.size();
    if (!list.empty()) list.append(is_last ? last : ", ");
    list.append(word);
    return false;
  });
  return list;
}

// The unit, from the end of the key. cuFile writes KB and MB for KiB and MiB.
std::string_view unit_of(std::string_view key) {
  constexpr std::pair<std::string_view, std::string_view> kUnits[] = {
      {"_mib", "MiB"},     {"_mb", "MiB"}, {"_kib", "KiB"}, {"_kb", "KiB"}, {"_msecs", "milliseconds"},
      {"_secs", "seconds"}};
  for (const auto& [end, unit] : kUnits) {
    if (key.ends_with(end)) return unit;
  }
  return "";
}

std::string number_text(const SettingRow& row) {
  const std::string_view unit = unit_of(row.key);
  std::string text = row.or_zero ? "0, or a number" : "a number";
  if (!unit.empty()) text.append(" of ").append(unit);
  text += ", " + std::to_string(row.low) + (row.high == 0 ? " or more" : " to " + std::to_string(row.high));
  if (row.unit != 1) text += ", a multiple of " + std::to_string(row.unit);
  return text;
}

std::string texts_text(const SettingRow& row) {
  const std::string_view words = words_of(row);
  if (words.empty()) return "a list of texts";
  const std::string alone = row.initial.empty() ? "" : std::string(row.initial) + ", or ";
  return alone + "some of " + joined(words, ", ") + ", with commas between";
}

// The names of paths that `is_meant`, separated by blanks.
template <typename IsMeant>
std::string paths_that(IsMeant is_meant) {
  std::string names;
  for (const PathRow& row : kPaths) {
    if (is_meant(row.traits)) names.append(names.empty() ? "" : " ").append(row.name);
  }
  return names;
}

}  // namespace

bool same_word(std::string_view one, std::string_view other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::string shown(std::string_view text) {
  constexpr std::size_t kBytesMax = 60;
  return printable(text.substr(0, kBytesMax)) + (text.size() > kBytesMax ? "..." : "");
}

std::optional<Value> among_choices(const SettingRow& row, Value value) {
  if (std::string* const text = std::get_if<std::string>(&value)) return text_among(row, std::move(*text));
  if (Texts* const texts = std::get_if<Texts>(&value)) return texts_among(row, std::move(*texts));
  return value;
}

std::string takes_text(const SettingRow& row) {
  return file_takes_text(row) + (row.kind == SettingKind::boolean ? ", in a variable also on or off" : "");
}

std::string file_takes_text(const SettingRow& row) {
  switch (row.kind) {
    case SettingKind::boolean: return "true or false";
    case SettingKind::number: return number_text(row);
    case SettingKind::numbers: return "a list of whole numbers";
    case SettingKind::texts: return texts_text(row);
    case SettingKind::text:
    case SettingKind::anything: break;
  }
  const std::string_view words = words_of(row);
  return words.empty() ? std::string(row.form) : joined(words, " or ");
}

std::string default_text(const SettingRow& row) {
  if (!row.otherwise.empty()) return std::string(row.otherwise);
  return row.initial.empty() ? "none" : std::string(row.initial);
}

// Never deleted, because they are used until the process ends.
std::string_view listed_paths() {
  static const auto* const names =
      new std::string(paths_that([](const PathTraits& traits) { return !traits.userspace; }));
  return *names;
}

std::string_view required_paths() {
  static const auto* const names = new std::string(paths_that([](const PathTraits&) { return true; }));
  return *names;
}

std::string_view device_kinds() {
  static const auto* const names = [] {
    auto* const kinds = new std::string;
    for (const Provider& provider : providers()) kinds->append(kinds->empty() ? "" : " ").append(provider.name);
    return kinds;
  }();
  return *names;
}

}  // namespace penstock::core
