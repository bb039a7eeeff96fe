// SPDX-License-Identifier: Apache-2.0

#include "session/handle_table.h"

#include <gtest/gtest.h>

#include <thread>

#include "fakes/waiting.h"

namespace penstock::core {
namespace {

TEST(HandleTableTest, AHandleLeadsToItsThing) {
  HandleTable<int> table;
  const std::uint64_t handle = table.insert(std::make_unique<int>(42)).value();

  int* pinned = table.pin(handle);

  ASSERT_NE(pinned, nullptr);
  EXPECT_EQ(*pinned, 42);
  table.unpin(handle);
}

TEST(HandleTableTest, NumbersThatWereNeverGivenOutLeadNowhere) {
  HandleTable<int> table;
  (void)table.insert(std::make_unique<int>(1));

  for (const std::uint64_t wild : {std::uint64_t{0}, std::uint64_t{2}, std::uint64_t{0xffffffff}, ~std::uint64_t{0},
                                   std::uint64_t{0x7fff12345678}}) {
    EXPECT_EQ(table.pin(wild), nullptr) << wild;
    EXPECT_EQ(table.retire(wild), nullptr) << wild;
  }
}

TEST(HandleTableTest, AReusedPlaceGetsANewNumber) {
  HandleTable<int> table;
  const std::uint64_t first = table.insert(std::make_unique<int>(1)).value();
  ASSERT_NE(table.retire(first), nullptr);
  ASSERT_EQ(*table.wait_and_take(first), 1);

  const std::uint64_t second = table.insert(std::make_unique<int>(2)).value();

  EXPECT_NE(first, second);
  EXPECT_EQ(table.pin(first), nullptr);
  EXPECT_EQ(table.retire(first), nullptr);
  EXPECT_EQ(*table.pin(second), 2);
  table.unpin(second);
}

TEST(HandleTableTest, RemovingWaitsForThoseWhoHaveItPinned) {
  HandleTable<int> table;
  const std::uint64_t handle = table.insert(std::make_unique<int>(1)).value();
  ASSERT_NE(table.pin(handle), nullptr);
  std::atomic<bool> removed{false};
  std::thread remover([&] {
    ASSERT_NE(table.retire(handle), nullptr);
    (void)table.wait_and_take(handle);
    removed = true;
  });

  while (table.pin(handle) != nullptr) table.unpin(handle);  // Loops until the object is retired.
  give_time_to_go_wrong();
  EXPECT_FALSE(removed);
  table.unpin(handle);
  remover.join();

  EXPECT_TRUE(removed);
}

TEST(HandleTableTest, WhatIsHeldIsPinnedByOthersOnlyAfterwards) {
  HandleTable<int> table;
  const std::uint64_t handle = table.insert(std::make_unique<int>(1)).value();
  ASSERT_NE(table.pin(handle), nullptr);
  ASSERT_TRUE(table.hold(handle));
  std::atomic<bool> over{false};
  bool was_over = false;
  std::thread other([&] {
    EXPECT_NE(table.pin(handle), nullptr);
    was_over = over;
    table.unpin(handle);
  });

  give_time_to_go_wrong();
  over = true;
  table.let_go(handle);
  other.join();

  EXPECT_TRUE(was_over);
}

TEST(HandleTableTest, WhatOthersHavePinnedIsNotHeld) {
  HandleTable<int> table;
  const std::uint64_t handle = table.insert(std::make_unique<int>(1)).value();
  ASSERT_NE(table.pin(handle), nullptr);
  ASSERT_NE(table.pin(handle), nullptr);

  EXPECT_FALSE(table.hold(handle));

  table.unpin(handle);
  EXPECT_TRUE(table.hold(handle));
}

TEST(HandleTableTest, WhatIsRetiredWhileItIsHeldIsGoneForThoseWhoWait) {
  HandleTable<int> table;
  const std::uint64_t handle = table.insert(std::make_unique<int>(1)).value();
  ASSERT_NE(table.pin(handle), nullptr);
  ASSERT_TRUE(table.hold(handle));

  ASSERT_NE(table.retire(handle), nullptr);
  table.let_go(handle);

  EXPECT_EQ(table.pin(handle), nullptr);
  table.unpin(handle);
  EXPECT_NE(table.wait_and_take(handle), nullptr);
}

TEST(HandleTableTest, AFullTableRefusesOneMoreUntilOneIsRemoved) {
  HandleTable<char> table;
  std::uint64_t last = 0;
  for (std::uint32_t i = 0; i < HandleTable<char>::kCountMax; ++i)
    last = table.insert(std::make_unique<char>()).value();

  EXPECT_TRUE(table.insert(std::make_unique<char>()).status().is(Code::limit));

  ASSERT_NE(table.retire(last), nullptr);
  ASSERT_NE(table.wait_and_take(last), nullptr);
  EXPECT_TRUE(table.insert(std::make_unique<char>()).ok());
}

TEST(HandleTableTest, OnlyOneOfManyRemoversWins) {
  HandleTable<int> table;
  const std::uint64_t handle = table.insert(std::make_unique<int>(1)).value();
  std::atomic<int> winners{0};
  std::vector<std::thread> threads;

  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      if (table.retire(handle) != nullptr) {
        (void)table.wait_and_take(handle);
        ++winners;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(winners, 1);
}

}  // namespace
}  // namespace penstock::core
