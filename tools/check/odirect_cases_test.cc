// SPDX-License-Identifier: Apache-2.0

#include "tools/check/odirect_cases.h"

#include <gtest/gtest.h>

namespace penstock::tools {
namespace {

TEST(OdirectCasesTest, WhatIsDoneOnALoopDeviceWithAPageCachePassedThatCache) {
  const auto judged = [](Verdict verdict) { return on_buffered_loop({.verdict = verdict}).verdict; };
  EXPECT_EQ(judged(Verdict::direct), Verdict::cached) << "a read, whose pages no count shows";
  EXPECT_EQ(judged(Verdict::unproven), Verdict::cached);
  for (const Verdict verdict : {Verdict::cached, Verdict::refused, Verdict::absent, Verdict::wrong}) {
    EXPECT_EQ(judged(verdict), verdict) << verdict_name(verdict);
  }
}

}  // namespace
}  // namespace penstock::tools
