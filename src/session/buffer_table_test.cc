// SPDX-License-Identifier: Apache-2.0

#include "session/buffer_table.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <unordered_map>

namespace penstock::core {
namespace {

TEST(BufferTableTest, FindsByExactBaseOnly) {
  BufferTable table;
  ASSERT_TRUE(table.insert({0x10000, 4096, {}}).ok());

  EXPECT_EQ(table.find(0x10000)->size, 4096u);
  EXPECT_FALSE(table.find(0x10001).has_value());
  EXPECT_FALSE(table.find(0).has_value());
}

TEST(BufferTableTest, KeepsAllThatIsKnownOfTheMemory) {
  BufferTable table;
  int device = 0;
  const PointerFacts memory = {.kind = MemoryKind::device,
                               .device = reinterpret_cast<Device*>(&device),
                               .base = 0x8000,
                               .size = 0x20000,
                               .mapped = 0x7000'0000};
  ASSERT_TRUE(table.insert({0x10000, 4096, memory}).ok());

  const PointerFacts found = table.find(0x10000)->memory;

  EXPECT_EQ(found.kind, memory.kind);
  EXPECT_EQ(found.device, memory.device);
  EXPECT_EQ(found.base, memory.base);
  EXPECT_EQ(found.size, memory.size);
  EXPECT_EQ(found.mapped, memory.mapped);
}

TEST(BufferTableTest, TheSameBaseTwiceIsAnErrorAndNestedOnesAreNot) {
  BufferTable table;
  ASSERT_TRUE(table.insert({0x10000, 4096, {}}).ok());

  EXPECT_TRUE(table.insert({0x10000, 8192, {}}).is(Code::already_registered));
  EXPECT_TRUE(table.insert({0x10100, 16, {}}).ok());
}

TEST(BufferTableTest, WhatWasRemovedIsGone) {
  BufferTable table;
  ASSERT_TRUE(table.insert({0x10000, 4096, {}}).ok());

  EXPECT_TRUE(table.remove(0x10000).ok());

  EXPECT_FALSE(table.find(0x10000).has_value());
  EXPECT_TRUE(table.remove(0x10000).status().is(Code::not_registered));
}

TEST(BufferTableTest, RandomWorkAgreesWithAMap) {
  BufferTable table;
  std::unordered_map<std::uint64_t, std::uint64_t> model;
  std::mt19937_64 random(7);

  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t base = 0x1000 + random() % 3000 * 512;
    if (random() % 2 == 0) {
      const bool fresh = model.emplace(base, i + 1).second;
      ASSERT_EQ(table.insert({base, static_cast<std::uint64_t>(i) + 1, {}}).ok(), fresh);
    } else {
      ASSERT_EQ(table.remove(base).ok(), model.erase(base) == 1);
    }
    const std::uint64_t probe = 0x1000 + random() % 3000 * 512;
    const auto found = table.find(probe);
    ASSERT_EQ(found.has_value(), model.contains(probe));
    if (found) {
      ASSERT_EQ(found->size, model[probe]);
    }
  }
}

TEST(BufferTableTest, ReadersAlwaysFindWhatStays) {
  BufferTable table;
  ASSERT_TRUE(table.insert({0x777000, 12345, {}}).ok());
  std::atomic<bool> stop{false};
  std::atomic<int> misses{0};
  std::thread reader([&] {
    while (!stop) {
      const auto found = table.find(0x777000);
      if (!found || found->size != 12345) ++misses;
    }
  });

  for (std::uint64_t round = 0; round < 20; ++round) {
    for (std::uint64_t i = 0; i < 500; ++i) ASSERT_TRUE(table.insert({0x1000000 + i * 4096 + round * 64, 1, {}}).ok());
    for (std::uint64_t i = 0; i < 500; ++i) ASSERT_TRUE(table.remove(0x1000000 + i * 4096 + round * 64).ok());
  }
  stop = true;
  reader.join();

  EXPECT_EQ(misses, 0);
}

}  // namespace
}  // namespace penstock::core
