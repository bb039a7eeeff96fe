// SPDX-License-Identifier: Apache-2.0

#include "tools/doctor/attempt.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

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
  const Gain little = gained({.bytes_per_second = 108, .turns = {99, 108, 110, 115}}, slow);
  EXPECT_EQ(little.speed, 0);
  EXPECT_TRUE(little.doubt);
  EXPECT_EQ(gained({.bytes_per_second = 200, .turns = {190, 200, 200, 210}}, slow).speed, 200);
  const Gain worse = gained({.bytes_per_second = 50, .turns = {50, 50, 50, 50}}, slow);
  EXPECT_EQ(worse.speed, 0);
  EXPECT_FALSE(worse.doubt);
}

// Turns of `rate` on a machine whose other programs take more here and less there.
Rate on_a_busy_machine(double rate, std::mt19937& random) {
  std::lognormal_distribution<double> noise(0, 0.3);
  Rate measured{.bytes_per_second = rate};
  for (unsigned i = 0; i < kTurns; ++i) measured.turns.push_back(rate * noise(random));
  return measured;
}

TEST_F(AttemptTest, AskedOverAndOverChanceGivesNoCounselAndDeniesNoGain) {
  constexpr unsigned kTimes = 500;
  constexpr double kRate = 1e9;
  unsigned false_counsels = 0, gains_found = 0, gains_denied = 0;
  std::mt19937 random(1);
  for (unsigned i = 0; i < kTimes; ++i) {
    false_counsels += gained(on_a_busy_machine(kRate, random), on_a_busy_machine(kRate, random)).speed > 0 ? 1 : 0;
    const Gain real = gained(on_a_busy_machine(3 * kRate, random), on_a_busy_machine(kRate, random));
    gains_found += real.speed > 0 ? 1 : 0;
    gains_denied += real.speed == 0 && !real.doubt ? 1 : 0;
  }
  EXPECT_LE(false_counsels, kTimes * 3 / 100);
  EXPECT_GE(gains_found, kTimes * 95 / 100);
  EXPECT_EQ(gains_denied, 0u);
}

TEST_F(AttemptTest, APartIsAtLeastAsQuickAsTheWholeThatItIsPartOf) {
  Rate part{.bytes_per_second = 80, .turns = {50, 200}};
  raise_to(part, {.bytes_per_second = 100, .turns = {100, 100}});
  EXPECT_EQ(part.turns, (std::vector<double>{100, 200}));
  EXPECT_GE(part.bytes_per_second, 100);
  EXPECT_EQ(part.slowest(), 100);
}

TEST_F(AttemptTest, MoreWaysThanFitShareTheTime) {
  EXPECT_EQ(seconds_each(2, 3), 2);
  EXPECT_EQ(seconds_each(2, kVariantsInFull), 2);
  EXPECT_EQ(seconds_each(2, 2 * kVariantsInFull), 1);
}

}  // namespace
}  // namespace penstock::tools
