// SPDX-License-Identifier: Apache-2.0

#include "settings/names.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::core {
namespace {

TEST(SettingNamesTest, NoKeyThatForbidsNothingIsNearOneThatForbids) {
  for (const SettingRow& row : kSettingRows) {
    if (row.forbids || row.key.starts_with("call.")) continue;
    std::string names = std::string(row.key) + " " + std::string(row.aliases);
    for (std::size_t end = names.find(' '); !names.empty(); end = names.find(' ')) {
      const std::string name = names.substr(0, end);
      names.erase(0, end == std::string::npos ? end : end + 1);
      if (name.empty()) continue;
      const std::optional<Setting> near = setting_near(name);
      ASSERT_TRUE(near.has_value()) << name;
      EXPECT_FALSE(near->row().forbids) << name << " " << near->key();
    }
  }
}

TEST(SettingNamesTest, WhatHasLittleInCommonIsNotNear) {
  for (const char* name : {"", "properties.no_such_key", "properties.compat", "a", "denylist.paths", "properties.mode",
                           "properties.allow", "logging.file", "properties.allow_everything"}) {
    EXPECT_FALSE(setting_near(name).has_value()) << name << " " << setting_near(name)->key();
  }
  EXPECT_FALSE(setting_near(std::string(100000, 'a')).has_value());
}

TEST(SettingNamesTest, AVariableWithASlipInItIsNearTheOneThatWasMeant) {
  EXPECT_EQ(variable_near("PENSTOCK_DMABUF_FILES")->key(), "penstock.dmabuf_files") << "no PENSTOCK_DMABUF with more";
  EXPECT_EQ(variable_near("CUFILE_ALLOW_COMPAT_MOD")->key(), "properties.allow_compat_mode");
  EXPECT_EQ(variable_near("CUFILE_ALLOW_COMPAT")->key(), "properties.allow_compat_mode");
  EXPECT_EQ(variable_near("CUFILE_FORCECOMPAT_MODE")->key(), "properties.force_compat_mode");
  EXPECT_FALSE(variable_near("CUFILE_LIBRARY_DIR").has_value());
  EXPECT_FALSE(variable_near("CUFILE_").has_value());
}

TEST(SettingNamesTest, ANameShorterThanThePrefixOfVariablesIsNone) {
  for (const char* name : {"", "foo", "nosuch", "CUFILE"}) EXPECT_FALSE(variable_near(name).has_value()) << name;
}

}  // namespace
}  // namespace penstock::core
