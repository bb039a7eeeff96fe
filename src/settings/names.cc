// SPDX-License-Identifier: Apache-2.0

#include "settings/names.h"

#include <algorithm>
#include <string>

#include "base/edit_distance.h"
#include "settings/words.h"

namespace penstock::core {
namespace {

constexpr std::size_t kNameBytesMax = 96;  // A longer name is not a typo.
constexpr std::string_view kCufilePrefix = "CUFILE_";
constexpr std::string_view kOwnPrefix = "PENSTOCK_";

// False for sections that hold the values of calls, which no file has.
bool is_in_files(const SettingRow& row) { return !row.key.starts_with("call."); }

// The first row of files that `fits`.
template <typename Fits>
std::optional<Setting> find_row(Fits fits) {
  for (std::size_t i = 0; i < kSettingCount; ++i) {
    if (is_in_files(kSettingRows[i]) && fits(kSettingRows[i])) return Setting::at(i);
  }
  return std::nullopt;
}

std::string_view without_section(std::string_view name) { return name.substr(name.rfind('.') + 1); }
bool has_several_words(std::string_view name) { return without_section(name).find('_') != std::string_view::npos; }

bool has_name_of(const SettingRow& row, std::string_view last) {
  const auto ends_so = [&](std::string_view name) { return without_section(name) == last; };
  return ends_so(row.key) || any_word(row.aliases, ends_so);
}

// Nothing unless exactly one row has this name in its own section.
std::optional<Setting> misplaced(std::string_view name) {
  const std::string_view last = without_section(name);
  if (!has_several_words(last)) return std::nullopt;
  const auto is_it = [&](const SettingRow& row) { return has_name_of(row, last); };
  const std::optional<Setting> first = find_row(is_it);
  const auto is_another = [&](const SettingRow& row) { return is_it(row) && row.key != first->key(); };
  return first && !find_row(is_another) ? first : std::nullopt;
}

std::string_view cut_word(std::string_view& name) {
  const std::string_view word = name.substr(0, name.find('_'));
  name.remove_prefix(std::min(name.size(), word.size() + 1));
  return word;
}

// True if each word of the name, of at least three, begins a word of the key or is begun by one, in their order:
// "max_pinned_memory_size" has those of "max_device_pinned_mem_size_kb".
bool has_words_of(std::string_view name, std::string_view key) {
  std::size_t words = 0;
  for (; !name.empty(); ++words) {
    const std::string_view word = cut_word(name);
    bool is_found = false;
    while (!key.empty() && !is_found) {
      const std::string_view other = cut_word(key);
      is_found = std::min(word.size(), other.size()) >= 3 && (word.starts_with(other) || other.starts_with(word));
    }
    if (!is_found) return false;
  }
  return words >= 3;
}

// A name of a single word is compared together with its section, which says what it is about.
bool is_near_key(std::string_view name, std::string_view key) {
  if (!has_several_words(key)) return is_near(name, key);
  return is_near(without_section(name), without_section(key)) ||
         has_words_of(without_section(name), without_section(key));
}

std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char letter : name) {
    if (letter >= 'A' && letter <= 'Z') letters.push_back(static_cast<char>(letter - 'A' + 'a'));
    else if ((letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9')) letters.push_back(letter);
  }
  return letters;
}

// True if the shorter can be made from the longer by leaving out letters.
bool is_within(std::string_view shorter, std::string_view longer) {
  for (const char letter : longer) {
    if (!shorter.empty() && shorter.front() == letter) shorter.remove_prefix(1);
  }
  return shorter.empty();
}

auto near_key(std::string_view name) {
  const auto is_it = [name](std::string_view key) { return is_near_key(name, key); };
  return [is_it](const SettingRow& row) { return is_it(row.key) || any_word(row.aliases, is_it); };
}

// Compares without the prefix CUFILE_, which alone would make short names near. Penstock's names are few and short.
auto near_variable(std::string_view name) {
  return [name](const SettingRow& row) {
    const std::string_view variable(row.variable);
    if (variable.empty() || variable.starts_with(kOwnPrefix) != name.starts_with(kOwnPrefix)) return false;
    if (name.starts_with(kOwnPrefix)) return name == row.former || is_near(name, variable);
    if (!name.starts_with(kCufilePrefix) || !variable.starts_with(kCufilePrefix)) return false;
    return is_near(name.substr(kCufilePrefix.size()), variable.substr(kCufilePrefix.size()));
  };
}

template <typename Near>
std::optional<Setting> nearest_prohibition(Near near) {
  return find_row([&](const SettingRow& row) { return row.forbids && near(row); });
}

}  // namespace

bool is_near(std::string_view name, std::string_view known) {
  constexpr std::size_t kSlipsMax = 3;
  constexpr std::size_t kLettersASlip = 4;
  constexpr std::size_t kTellingLetters = 10;  // "compat_mode" without its first word is still recognized.
  const bool is_short = name.size() < kTellingLetters && name.size() + kLettersASlip * kSlipsMax < known.size();
  if (name.size() > kNameBytesMax || is_short) return false;
  const std::string given = letters_of(name), wanted = letters_of(known);
  const std::string_view shorter = given.size() < wanted.size() ? given : wanted;
  const std::string_view longer = given.size() < wanted.size() ? wanted : given;
  if (shorter.size() >= kTellingLetters && is_within(shorter, longer)) return true;
  const std::size_t slips = std::min(kSlipsMax, wanted.size() / kLettersASlip);
  return longer.size() - shorter.size() <= slips && edit_distance(given, wanted) <= slips;
}

std::optional<NamedSetting> setting_named(std::string_view name) {
  if (const auto own = find_row([&](auto& row) { return row.key == name; })) return NamedSetting{*own, Standing::own};
  const auto is_older = [&](const SettingRow& row) {
    return any_word(row.aliases, [&](std::string_view alias) { return alias == name; });
  };
  if (const auto older = find_row(is_older)) return NamedSetting{*older, Standing::older};
  if (is_section(name)) return std::nullopt;
  if (const auto other = misplaced(name)) return NamedSetting{*other, Standing::misplaced};
  return std::nullopt;
}

bool is_section(std::string_view name) {
  const std::string prefix = std::string(name) + ".";
  const auto is_in_it = [&](std::string_view key) { return key.starts_with(prefix); };
  return find_row([&](const SettingRow& row) { return is_in_it(row.key) || any_word(row.aliases, is_in_it); })
      .has_value();
}

std::optional<Setting> prohibition_near(std::string_view name) { return nearest_prohibition(near_key(name)); }

std::optional<Setting> setting_near(std::string_view name) {
  const std::optional<Setting> prohibition = prohibition_near(name);
  return prohibition ? prohibition : find_row(near_key(name));
}

std::optional<Setting> variable_near(std::string_view name) {
  const auto is_it = [&](const SettingRow& row) { return !name.empty() && row.variable == name; };
  if (const std::optional<Setting> exact = find_row(is_it)) return exact;
  const auto near = near_variable(name);
  const std::optional<Setting> prohibition = nearest_prohibition(near);
  return prohibition ? prohibition : find_row(near);
}

std::string_view idle_reason(std::string_view variable) {
  const auto is_it = [&](const IdleVariable& each) { return each.name == variable; };
  const auto* const found = std::find_if(std::begin(kIdleVariables), std::end(kIdleVariables), is_it);
  return found == std::end(kIdleVariables) ? "" : found->reason;
}

std::optional<Setting> own_setting(std::string_view name) {
  return find_row([&](const SettingRow& row) {
    return row.key.starts_with(kOwnSection) && row.key.substr(kOwnSection.size()) == name;
  });
}

std::optional<Setting> own_setting_near(std::string_view name) {
  return find_row([&](const SettingRow& row) {
    return row.key.starts_with(kOwnSection) && is_near(name, row.key.substr(kOwnSection.size()));
  });
}

}  // namespace penstock::core
