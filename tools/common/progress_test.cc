// SPDX-License-Identifier: Apache-2.0

#include "tools/common/progress.h"

#include <gtest/gtest.h>

namespace penstock::tools {
namespace {

TEST(Progress, TellsBytesPercentRateAndTimeLeft) {
  EXPECT_EQ(progress_line("copy", 1u << 30, 0.25, 2), "copy: 1 GiB  25%  0.54 GB/s  6.00 s left");
}

TEST(Progress, PromisesNothingBeforeTheFirstByte) {
  EXPECT_EQ(progress_line("copy", 0, 0, 2), "copy: 0 B  0%  0.00 MB/s");
}

TEST(Progress, NeverPassesTheEnd) {
  EXPECT_EQ(progress_line("read", 2000, 1.5, 1), "read: 1.95 KiB  100%  0.00 MB/s  0 us left");
}

}  // namespace
}  // namespace penstock::tools
