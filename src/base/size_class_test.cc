// SPDX-License-Identifier: Apache-2.0

#include "base/size_class.h"

#include <gtest/gtest.h>

namespace penstock::core {
namespace {

TEST(SizeClassTest, AClassForEachPowerOfTwoBetweenAMebibyteAndAGibibyte) {
  const auto mebibytes = [](std::uint64_t number) { return number << 20; };
  EXPECT_EQ(size_class(0), 0u);
  EXPECT_EQ(size_class(mebibytes(1) - 1), 0u);
  EXPECT_EQ(size_class(mebibytes(1)), 1u);
  EXPECT_EQ(size_class(mebibytes(2) - 1), 1u);
  EXPECT_EQ(size_class(mebibytes(2)), 2u);
  EXPECT_EQ(size_class(mebibytes(1024) - 1), kSizeClasses - 2);
  EXPECT_EQ(size_class(mebibytes(1024)), kSizeClasses - 1);
  EXPECT_EQ(size_class(UINT64_MAX), kSizeClasses - 1);
}

}  // namespace
}  // namespace penstock::core
