// SPDX-License-Identifier: Apache-2.0

#include "path/vendor/foreign_call.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace penstock::core {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{20};

TEST(ForeignCallTest, WhatIsOursIsWaitedForBeforeTheForeignCodeAndBehindIt) {
  bool is_done = false;
  EXPECT_TRUE(ForeignCall::run(kPatience, [&](ForeignCall& call) {
    std::this_thread::sleep_for(5 * kPatience);
    call.go_out();
    call.come_back();
    std::this_thread::sleep_for(5 * kPatience);
    is_done = true;
  }));
  EXPECT_TRUE(is_done);
}

TEST(ForeignCallTest, WorkThatNeverGoesOutIsWaitedForToo) {
  EXPECT_TRUE(ForeignCall::run(kPatience, [](ForeignCall&) { std::this_thread::sleep_for(5 * kPatience); }));
}

TEST(ForeignCallTest, WhatWasGivenUpOutsideGoesNoFurtherWhenItComesBack) {
  // Of the test's life, as the thread is.
  static std::atomic<bool> is_held{true}, came_back{false}, went_on{false};
  EXPECT_FALSE(ForeignCall::run(kPatience, [](ForeignCall& call) {
    call.go_out();
    while (is_held) std::this_thread::sleep_for(milliseconds(1));
    came_back = true;
    call.come_back();
    went_on = true;
  }));
  is_held = false;
  while (!came_back) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(2 * kPatience);
  EXPECT_FALSE(went_on);
}

}  // namespace
}  // namespace penstock::core
