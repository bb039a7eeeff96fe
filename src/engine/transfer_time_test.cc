// SPDX-License-Identifier: Apache-2.0

#include "engine/transfer_time.h"

#include <gtest/gtest.h>

#include <optional>

namespace penstock::core {
namespace {

constexpr std::uint64_t kWall = 1'200;

TEST(TransferTimeTest, ATransferThatIsAloneTookAllOfItsTime) {
  std::atomic<unsigned> active{0};
  const ActiveTransfer own(active);
  EXPECT_EQ(TransferTime(active).share_of(kWall), kWall);
}

TEST(TransferTimeTest, OthersThatBeganLaterShareItsTime) {
  std::atomic<unsigned> active{0};
  const ActiveTransfer own(active);
  const TransferTime time(active);
  const ActiveTransfer second(active), third(active);
  EXPECT_EQ(time.share_of(kWall), kWall / 2) << "one at first, and three at last";
}

TEST(TransferTimeTest, OthersThatEndedEarlierShareItsTime) {
  std::atomic<unsigned> active{0};
  const ActiveTransfer own(active);
  std::optional<ActiveTransfer> second(active), third(active);
  const TransferTime time(active);
  second.reset();
  third.reset();
  EXPECT_EQ(time.share_of(kWall), kWall / 2);
}

}  // namespace
}  // namespace penstock::core
