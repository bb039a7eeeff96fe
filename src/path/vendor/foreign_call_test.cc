// SPDX-License-Identifier: Apache-2.0

#include "path/vendor/foreign_call.h"

#include <gtest/gtest.h>

#include <atomic>

#include "fakes/waiting.h"

namespace penstock::core {
namespace {

using std::chrono::milliseconds;

// Longer than a thread of a busy machine waits for its turn.
constexpr milliseconds kPatience{300};

TEST(ForeignCallTest, WhatIsOursIsWaitedForBeforeTheForeignCodeAndBehindIt) {
  bool is_done = false;
  EXPECT_TRUE(ForeignCall::run(kPatience, [&](ForeignCall& call) {
    be_slow(kPatience * 3 / 2);
    call.go_out();
    call.come_back();
    be_slow(kPatience * 3 / 2);
    is_done = true;
  }));
  EXPECT_TRUE(is_done);
}

TEST(ForeignCallTest, WorkThatNeverGoesOutIsWaitedForToo) {
  EXPECT_TRUE(ForeignCall::run(kPatience, [](ForeignCall&) { be_slow(kPatience * 3 / 2); }));
}

TEST(ForeignCallTest, WhatWasGivenUpOutsideGoesNoFurtherWhenItComesBack) {
  // They live as long as the test program, like the thread.
  static std::atomic<bool> is_held{true}, came_back{false}, went_on{false};
  EXPECT_FALSE(ForeignCall::run(kPatience, [](ForeignCall& call) {
    call.go_out();
    is_held.wait(true);
    came_back = true;
    call.come_back();
    went_on = true;
  }));
  is_held = false;
  is_held.notify_all();
  ASSERT_TRUE(wait_until([] { return came_back.load(); }));
  give_time_to_go_wrong();
  EXPECT_FALSE(went_on);
}

}  // namespace
}  // namespace penstock::core
