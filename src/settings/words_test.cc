// SPDX-License-Identifier: Apache-2.0

#include "settings/words.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>

#include "core/paths.h"
#include "device/providers.h"

namespace penstock::core {
namespace {

std::string takes(Setting setting) { return takes_text(setting.row()); }

TEST(SettingWordsTest, WhatASettingTakesFollowsFromItsRow) {
  EXPECT_EQ(takes("penstock.bounce_mib"), "a number of MiB, 1 to 65536");
  EXPECT_EQ(takes("penstock.chunk_kib"), "a number of KiB, 64 to 1048576, a multiple of 64");
  EXPECT_EQ(takes("penstock.workers"), "a number, 1 to 256");
  EXPECT_EQ(takes("execution.min_io_threshold_size_kb"), "a number of KiB, 4 to 4294967295");
  EXPECT_EQ(takes("penstock.nvidia_export"), "true or false, in a variable also on or off");
  EXPECT_EQ(takes("penstock.direct_io"), "auto, always or never");
  EXPECT_EQ(takes("penstock.vendor_library"), "an absolute path");
  EXPECT_EQ(takes("denylist.mounts"), "a list of texts");
}

TEST(SettingWordsTest, NamesOfPathsAndDevicesAreThoseOfTheirTables) {
  std::string all, listed, devices;
  const auto add = [](std::string& names, const char* name) { names.append(names.empty() ? "" : ", ").append(name); };
  for (const PathRow& row : kPaths) {
    if (&row != std::end(kPaths) - 1) add(all, row.name);
    if (!row.traits.userspace) add(listed, row.name);
  }
  for (const Provider& provider : providers()) add(devices, provider.name);

  EXPECT_EQ(takes("penstock.require"), all + " or " + (std::end(kPaths) - 1)->name);
  EXPECT_EQ(takes("penstock.paths"), "auto, or some of " + listed + ", with commas between");
  EXPECT_EQ(takes("penstock.device"), "auto, or some of " + devices + ", with commas between");
}

TEST(SettingWordsTest, ADefaultThatTheMachineDecidesIsToldInWords) {
  EXPECT_EQ(default_text(Setting("penstock.bounce_mib").row()), "256");
  EXPECT_EQ(default_text(Setting("penstock.require").row()), "none");
  EXPECT_EQ(default_text(Setting("penstock.workers").row()),
            "one for each core of this rank's share, up to 8, or 16 under policy throughput");
}

TEST(SettingWordsTest, AListHasSomeOfItsWordsNoneTwiceOrTheDefaultAlone) {
  const SettingRow& row = Setting("penstock.paths").row();

  EXPECT_EQ(parse_value(row, "bounce,host"), Value(Texts{"bounce", "host"}));
  EXPECT_EQ(parse_value(row, "Host, p2pdma"), Value(Texts{"host", "p2pdma"}));
  EXPECT_EQ(parse_value(row, "auto"), Value(Texts{"auto"}));
  for (const char* text : {"", ",", "fastest", "bounce,bounce", "bounce,fastest", "auto,bounce", "userspace"}) {
    EXPECT_FALSE(parse_value(row, text).has_value()) << text;
  }
}

TEST(SettingWordsTest, ATextIsOneOfItsWordsOrTheDefault) {
  EXPECT_EQ(parse_value(Setting("penstock.require").row(), ""), Value(std::string()));
  EXPECT_EQ(parse_value(Setting("penstock.policy").row(), "CPU"), Value(std::string("cpu")));
  EXPECT_FALSE(parse_value(Setting("penstock.policy").row(), "").has_value());
  EXPECT_FALSE(parse_value(Setting("penstock.policy").row(), "cpu balanced").has_value());
}

TEST(SettingWordsTest, AnAbsolutePathBeginsWithASlash) {
  const SettingRow& row = Setting("penstock.vendor_library").row();

  EXPECT_EQ(parse_value(row, "/opt/cuda/libcufile.so.0"), Value(std::string("/opt/cuda/libcufile.so.0")));
  EXPECT_TRUE(parse_value(row, "").has_value());
  for (const char* text : {"libcufile.so.0", "./libcufile.so.0"}) {
    EXPECT_FALSE(parse_value(row, text).has_value()) << text;
  }
}

}  // namespace
}  // namespace penstock::core
