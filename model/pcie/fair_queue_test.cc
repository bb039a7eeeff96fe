// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/fair_queue.h"

#include <gtest/gtest.h>

#include <array>

namespace penstock::model {
namespace {

// Serves lanes that always have another piece for a while, and counts bytes.
template <std::size_t kLanes>
std::array<double, kLanes> bytes_served(const std::array<double, kLanes>& pieces,
                                        const std::array<double, kLanes>& weights, double total) {
  FairQueue queue;
  std::array<double, kLanes> tags{};
  std::array<double, kLanes> served{};
  for (std::uint32_t i = 0; i < kLanes; ++i) queue.push(i, pieces[i], weights[i], tags[i]);
  for (double all = 0; all < total;) {
    const std::uint32_t lane = queue.pop();
    queue.serve(tags[lane]);
    served[lane] += pieces[lane];
    all += pieces[lane];
    queue.push(lane, pieces[lane], weights[lane], tags[lane]);
  }
  return served;
}

TEST(FairQueue, TakesTurnsBetweenEqualLanes) {
  FairQueue queue;
  std::array<double, 3> tags{};
  for (std::uint32_t i = 0; i < 3; ++i) queue.push(i, 100, 1, tags[i]);

  std::vector<std::uint32_t> order;
  for (int i = 0; i < 9; ++i) {
    order.push_back(queue.pop());
    queue.serve(tags[order.back()]);
    queue.push(order.back(), 100, 1, tags[order.back()]);
  }

  EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 1, 2, 0, 1, 2, 0, 1, 2}));
}

TEST(FairQueue, SharesBytesAndNotPiecesWhereOneLaneHasLargerOnes) {
  const auto served = bytes_served<2>({4096, 512}, {1, 1}, 1e7);

  EXPECT_NEAR(served[0] / served[1], 1, 0.01);
}

TEST(FairQueue, SharesByWeight) {
  const auto served = bytes_served<3>({1000, 1000, 1000}, {65, 25, 10}, 1e7);

  EXPECT_NEAR(served[0] / 1e7, 0.65, 0.005);
  EXPECT_NEAR(served[1] / 1e7, 0.25, 0.005);
  EXPECT_NEAR(served[2] / 1e7, 0.10, 0.005);
}

TEST(FairQueue, ALaneThatWasIdleGetsNoCreditForItsIdleTime) {
  FairQueue queue;
  double busy = 0;
  double idle = 0;
  queue.push(0, 100, 1, busy);
  for (int i = 0; i < 1000; ++i) {
    queue.pop();
    queue.serve(busy);
    queue.push(0, 100, 1, busy);
  }

  queue.push(1, 100, 1, idle);
  int in_a_row = 0;
  for (; queue.pop() == 1; ++in_a_row) {
    queue.serve(idle);
    queue.push(1, 100, 1, idle);
  }

  EXPECT_LE(in_a_row, 1);
}

TEST(FairQueue, ALaneThatComesBackKeepsItsPlace) {
  FairQueue queue;
  double first = 0;
  double second = 0;
  queue.push(0, 100, 1, first);
  queue.push(1, 200, 1, second);

  EXPECT_EQ(queue.pop(), 0U);
  queue.push_again(0, first);

  EXPECT_EQ(queue.pop(), 0U);
}

}  // namespace
}  // namespace penstock::model
