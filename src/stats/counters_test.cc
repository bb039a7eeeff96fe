// SPDX-License-Identifier: Apache-2.0

#include "stats/counters.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace penstock::core {
namespace {

TEST(CountersTest, AddsUpWhatManyThreadsCounted) {
  Counters counters;
  std::vector<std::thread> threads;

  for (int i = 0; i < 40; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 100; ++j) counters.add(PathId::bounce, Reason::stand_in, Op::read, 3);
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(counters.total(PathId::bounce, Reason::stand_in, Op::read).bytes, 12000u);
  EXPECT_EQ(counters.total(PathId::bounce, Reason::stand_in, Op::read).operations, 4000u);
}

TEST(CountersTest, KeepsPathsReasonsAndDirectionsApart) {
  Counters counters;

  counters.add(PathId::null, Reason::io_uring_off, Op::write, 7);

  EXPECT_EQ(counters.total(PathId::null, Reason::io_uring_off, Op::write).bytes, 7u);
  EXPECT_EQ(counters.total(PathId::null, Reason::io_uring_off, Op::read).bytes, 0u);
  EXPECT_EQ(counters.total(PathId::null, Reason::none, Op::write).bytes, 0u);
  EXPECT_EQ(counters.total(PathId::p2pdma, Reason::io_uring_off, Op::write).bytes, 0u);
}

}  // namespace
}  // namespace penstock::core
