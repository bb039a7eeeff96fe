// SPDX-License-Identifier: Apache-2.0

#include "core/p2pdma_needs.h"

#include <gtest/gtest.h>

namespace penstock::core {
namespace {

// In rising order: a larger major number counts for more than any minor one.
template <typename Version>
void expect_order(const Version (&rising)[4]) {
  for (int one = 0; one < 4; ++one) {
    for (int other = 0; other < 4; ++other) {
      const std::string both = text_of(rising[one]) + " and " + text_of(rising[other]);
      EXPECT_EQ(rising[one] < rising[other], one < other) << both;
      EXPECT_EQ(rising[one] >= rising[other], one >= other) << both;
      EXPECT_EQ(rising[one] == rising[other], one == other) << both;
    }
  }
}

TEST(P2pdmaNeedsTest, VersionsCompareByTheirMajorNumbersFirst) {
  expect_order<KernelVersion>({{}, {5, 19}, {6, 2}, {6, 16}});
  expect_order<DriverVersion>({{}, {565, 57}, {595, 4}, {595, 44}});
}

TEST(P2pdmaNeedsTest, AVersionIsToldAsItsMakersWriteIt) {
  EXPECT_EQ(text_of(kP2pdmaKernelFaulty), "6.16");
  EXPECT_EQ(text_of(kP2pdmaDriver), "565.57");
}

}  // namespace
}  // namespace penstock::core
