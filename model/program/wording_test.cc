// SPDX-License-Identifier: Apache-2.0

#include "model/program/wording.h"

#include <gtest/gtest.h>

namespace penstock::tools {
namespace {

TEST(Wording, TimesAreDurations) {
  EXPECT_EQ(worded(13680.0, "save_s"), "3 h 48 min");
  EXPECT_EQ(worded(1.5, "stall_hours"), "1 h 30 min");
  EXPECT_EQ(worded(30.62, "seconds"), "30.62 s");
  EXPECT_EQ(worded(2.345e-6, "gap_s"), "2.35 us");
  EXPECT_EQ(worded(0, "setup_s"), "0 s");
}

TEST(Wording, BytesAreScaled) {
  EXPECT_EQ(worded(140e9, "bytes"), "140 GB");
  EXPECT_EQ(worded(8.75e9, "drive_cache_bytes"), "8.75 GB");
  EXPECT_EQ(worded(65536, "block_bytes"), "64 KiB");
  EXPECT_EQ(worded(2, "weight_bytes"), "2 B");
  EXPECT_EQ(worded(0.5, "weight_bytes"), "0.5 B");
  EXPECT_EQ(worded(14e9, "drive_bytes_per_s"), "14 GB/s");
}

TEST(Wording, MoneyHasTwoDigitsAndCountsHaveAll) {
  EXPECT_EQ(worded(3.3219, "money"), "3.32");
  EXPECT_EQ(worded(65536, "ios"), "65536");
  EXPECT_EQ(worded(70e9, "parameters"), "70 billion");
  EXPECT_EQ(worded(12.3456, "gb_per_s"), "12.35");
}

TEST(Wording, WhatIsNoNumberStaysAsItIs) {
  EXPECT_EQ(worded(nullptr, "save_s"), "-");
  EXPECT_EQ(worded("direct", "path"), "direct");
  EXPECT_EQ(worded(true, "sharded"), "yes");
}

TEST(Wording, ALabelLosesTheUnitThatItsValuesBring) {
  EXPECT_EQ(label_for_worded({"save_s", "save, s"}), "save");
  EXPECT_EQ(label_for_worded({"lost_hours", "lost, h"}), "lost");
  EXPECT_EQ(label_for_worded({"block_bytes", "block, B"}), "block");
  EXPECT_EQ(label_for_worded({"gb_per_s", "GB/s, all nodes"}), "GB/s, all nodes");
  EXPECT_EQ(label_for_worded({"money", "lost, $"}), "lost, $");
}

TEST(Wording, InputsHaveNamesForPeople) {
  EXPECT_EQ(input_in_words("drives_per_node"), "drives in each node");
  EXPECT_EQ(input_in_words("nodes"), "nodes");
}

}  // namespace
}  // namespace penstock::tools
