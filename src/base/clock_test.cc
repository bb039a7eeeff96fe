// SPDX-License-Identifier: Apache-2.0

#include "base/clock.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace penstock::core {
namespace {

const Clock* the_clock = nullptr;

// A thread that goes on while the process exits asks for the time behind the destructors of what is static.
TEST(ClockTest, TheSystemsTellsTheTimeUntilTheProcessIsGone) {
  const auto act = [] {
    std::atexit([] { std::_Exit(the_clock->now().count() > 0 ? 0 : 1); });
    the_clock = &system_clock();
    std::exit(2);
  };
  EXPECT_EXIT(act(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace penstock::core
