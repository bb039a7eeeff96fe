// SPDX-License-Identifier: Apache-2.0

// Every key of cuFile's configuration, once: what it is called in cufile.json, in the environment and as a parameter
// of the calls, what it may be, what it is where nobody says anything, and whether it does anything here. Parsing,
// precedence, reports and the Get and Set calls all follow from this table.
#pragma once

#include <cstddef>
#include <iterator>
#include <optional>

#include "settings/cufile_rows.h"
#include "settings/row.h"

namespace penstock::core {

constexpr std::size_t kSettingCount = std::size(kSettingRows);

// One row of the table. Made from its key as a literal, which is looked up while compiling.
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
  friend constexpr bool operator==(Setting, Setting) = default;

 private:
  constexpr Setting(std::size_t index, int) : index_(index) {}
  static constexpr std::size_t index_of(std::string_view key) {
    std::size_t index = 0;
    while (index < kSettingCount && kSettingRows[index].key != key) ++index;
    return index;
  }
  static void no_such_key();  // Never defined: the compiler stops here.

  std::size_t index_;
};

}  // namespace penstock::core
