// SPDX-License-Identifier: Apache-2.0

// The one table of settings, cuFile's keys and Penstock's own: a setting's names in cufile.json, in the environment and
// in calls, its range, its default, and its effect here. Parsing, precedence, reports, the faces' calls, `penstock
// settings` and the page of the manual all follow from this table.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>

#include "settings/cufile_rows.h"
#include "settings/penstock_rows.h"
#include "settings/row.h"

namespace penstock::core {

constexpr std::size_t kSettingCount = std::size(kCufileRows) + std::size(kPenstockRows);
constexpr std::string_view kOwnSection = "penstock.";

// In the order of reports.
constexpr std::array<SettingRow, kSettingCount> kSettingRows = [] {
  std::array<SettingRow, kSettingCount> rows{};
  std::copy(std::begin(kPenstockRows), std::end(kPenstockRows),
            std::copy(std::begin(kCufileRows), std::end(kCufileRows), rows.begin()));
  return rows;
}();

// A row of the table. It is made from its key, a literal, which is looked up during compilation.
class Setting {
 public:
  consteval Setting(const char* key) : index_(index_of(key)) {
    if (index_ == kSettingCount) no_such_key();
  }
  static constexpr Setting at(std::size_t index) { return Setting(index, 0); }
  static constexpr std::optional<Setting> of_parameter(SettingKind kind, int parameter) {
    for (std::size_t i = 0; i < kSettingCount; ++i) {
      if (kSettingRows[i].kind == kind && kSettingRows[i].parameter == parameter && parameter >= 0) return at(i);
    }
    return std::nullopt;
  }

  constexpr std::size_t index() const { return index_; }
  constexpr const SettingRow& row() const { return kSettingRows[index_]; }
  constexpr std::string_view key() const { return row().key; }
  constexpr bool is_served() const { return row().idle.empty(); }
  constexpr bool is_own() const { return key().starts_with(kOwnSection); }  // Penstock's own setting, not cuFile's.
  // The key without its section; for Penstock's own, the name in penstock_config_set().
  constexpr std::string_view name() const { return key().substr(key().rfind('.') + 1); }
  friend constexpr bool operator==(Setting, Setting) = default;

 private:
  constexpr Setting(std::size_t index, int) : index_(index) {}
  static constexpr std::size_t index_of(std::string_view key) {
    std::size_t index = 0;
    while (index < kSettingCount && kSettingRows[index].key != key) ++index;
    return index;
  }
  static void no_such_key();  // Never defined: an unknown key fails to compile here.

  std::size_t index_;
};

}  // namespace penstock::core
