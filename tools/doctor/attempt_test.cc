// SPDX-License-Identifier: Apache-2.0

#include "tools/doctor/attempt.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace penstock::tools {
namespace {

class AttemptTest : public testing::Test {
 protected:
  ~AttemptTest() override {
    for (const char* name : {"PENSTOCK_WORKERS", "PENSTOCK_CHUNK_KIB", "PENSTOCK_DEVICE"}) unsetenv(name);
  }
  static std::vector<std::string> commands() {
    std::vector<std::string> all;
    for (const Attempt& each : attempts_on_settings()) all.push_back(each.trial.command);
    return all;
  }
};
using Commands = std::vector<std::string>;

TEST_F(AttemptTest, WithoutSettingsThereIsMoreCpuTimeToTry) {
  EXPECT_EQ(commands(), Commands{"export PENSTOCK_POLICY=throughput"});
}

TEST_F(AttemptTest, OneSettingIsLeftOutOnce) {
  setenv("PENSTOCK_WORKERS", "1", 1);
  EXPECT_EQ(commands(), (Commands{"export PENSTOCK_POLICY=throughput", "unset PENSTOCK_WORKERS"}));
}

TEST_F(AttemptTest, SeveralAreLeftOutTogetherAndEachAlone) {
  setenv("PENSTOCK_WORKERS", "1", 1);
  setenv("PENSTOCK_CHUNK_KIB", "64", 1);
  setenv("PENSTOCK_DEVICE", "host", 1);  // Into what, and not how fast.
  EXPECT_EQ(commands(), (Commands{"export PENSTOCK_POLICY=throughput", "unset PENSTOCK_CHUNK_KIB PENSTOCK_WORKERS",
                                  "unset PENSTOCK_CHUNK_KIB", "unset PENSTOCK_WORKERS"}));
}

TEST_F(AttemptTest, AGainWithinWhatTurnsDifferIsNone) {
  const Rate slow{.bytes_per_second = 100, .turns = {90, 100, 100, 110}};
  EXPECT_EQ(gained({.bytes_per_second = 108, .turns = {99, 108, 110, 115}}, slow), 0);
  EXPECT_EQ(gained({.bytes_per_second = 200, .turns = {190, 200, 200, 210}}, slow), 200);
  EXPECT_EQ(gained({.bytes_per_second = 50, .turns = {50, 50, 50, 50}}, slow), 0);
}

TEST_F(AttemptTest, MoreWaysThanFitShareTheTime) {
  EXPECT_EQ(seconds_each(2, 3), 2);
  EXPECT_EQ(seconds_each(2, kWaysInFull), 2);
  EXPECT_EQ(seconds_each(2, 2 * kWaysInFull), 1);
}

}  // namespace
}  // namespace penstock::tools
