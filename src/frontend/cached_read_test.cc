// SPDX-License-Identifier: Apache-2.0

// Reads that are over soon, which threads share all the same: each one's copy is held up here.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "fakes/batch_fixture.h"
#include "fakes/waiting.h"
#include "frontend/transfer.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kSize = 2u << 20;

class CachedReadTest : public BatchTest {
 protected:
  explicit CachedReadTest(std::uint64_t bounce_bytes = 0) : BatchTest(bounce_bytes) {}
  void SetUp() override {
    for (std::size_t i = 0; i < storage_->content.size(); ++i) storage_->content[i] = static_cast<char>(i * 7919 >> 9);
    storage_->resident = true;
    memory_ = device_memory(2 * kSize);
  }
  // The file's first bytes, or its next.
  Outcome read(std::uint64_t size, bool next = false) {
    const auto offset = static_cast<std::int64_t>(next ? kSize : 0);
    return transfer(*session_, {Op::read, file_, memory_, size, offset, offset});
  }
  void expect_content(const Outcome& outcome, std::uint64_t size, bool next = false) const {
    const std::uint64_t offset = next ? kSize : 0;
    EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
    EXPECT_EQ(outcome.report.bytes, size);
    EXPECT_EQ(std::string(memory_ + offset, size), std::string(storage_->content.data() + offset, size));
  }

  char* memory_ = nullptr;
};

TEST_F(CachedReadTest, IsCopiedByItsCallerAndEveryThread) {
  hold_transfers_up();
  Outcome outcome;
  std::thread caller([&] { outcome = read(kSize); });
  barrier_.wait_for(kThreads + 1);
  barrier_.open();
  caller.join();
  expect_content(outcome, kSize);
}

TEST_F(CachedReadTest, HalfAMebibyteIsWorthOneThreadMoreAndLessIsNot) {
  hold_transfers_up();
  Outcome outcome, shorter;
  std::thread caller([&] { outcome = read(512u << 10); });
  barrier_.wait_for(2);
  give_time_to_go_wrong();
  EXPECT_EQ(barrier_.arrived(), 2u);
  std::thread other([&] { shorter = read(448u << 10, true); });
  barrier_.wait_for(3);
  give_time_to_go_wrong();
  EXPECT_EQ(barrier_.arrived(), 3u);
  barrier_.open();
  caller.join();
  other.join();
  expect_content(outcome, 512u << 10);
  expect_content(shorter, 448u << 10, true);
}

TEST_F(CachedReadTest, GetsNoThreadsThatOthersHave) {
  hold_transfers_up();
  Outcome first, second;
  std::thread caller([&] { first = read(kSize); });
  barrier_.wait_for(kThreads + 1);
  std::thread other([&] { second = read(kLarge, true); });
  barrier_.wait_for(kThreads + 2);
  give_time_to_go_wrong();
  EXPECT_EQ(barrier_.arrived(), kThreads + 2);
  barrier_.open();
  caller.join();
  other.join();
  expect_content(first, kSize);
  expect_content(second, kLarge, true);
}

TEST_F(CachedReadTest, EndsWhereTheFileDoes) {
  storage_->content.resize(kSize - 12345);
  const Outcome outcome = read(kSize);
  expect_content(outcome, kSize - 12345);
}

TEST_F(CachedReadTest, ManyAtOnceAndOneAfterTheOtherAreRight) {
  std::vector<std::thread> callers;
  for (unsigned number = 0; number < 2; ++number) {
    callers.emplace_back([&, number] {
      for (unsigned i = 0; i < 50; ++i) {
        const std::uint64_t size = kSize - i * 33'333;
        expect_content(read(size, number == 1), size, number == 1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// Its channels are shorter than half a mebibyte.
class ShortOfMemoryCachedReadTest : public CachedReadTest {
 protected:
  ShortOfMemoryCachedReadTest() : CachedReadTest(std::uint64_t{2} << 20) {}
};

TEST_F(ShortOfMemoryCachedReadTest, EverySizeIsReadWhole) {
  for (std::uint64_t size = 64u << 10; size <= kSize; size += 64u << 10) expect_content(read(size - 1), size - 1);
}

}  // namespace
}  // namespace penstock::core
