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

constexpr std::uint64_t kBrief = 2u << 20;

class BriefReadTest : public BatchTest {
 protected:
  explicit BriefReadTest(std::uint64_t bounce_bytes = 0) : BatchTest(bounce_bytes) {}
  void SetUp() override {
    for (std::size_t i = 0; i < storage_->content.size(); ++i) storage_->content[i] = static_cast<char>(i * 7919 >> 9);
    storage_->resident = true;
    memory_ = device_memory(2 * kBrief);
  }
  // The file's first bytes, or its next.
  Outcome read(std::uint64_t size, bool next = false) {
    const auto offset = static_cast<std::int64_t>(next ? kBrief : 0);
    return transfer(*session_, {Op::read, file_, memory_, size, offset, offset});
  }
  void expect_content(const Outcome& outcome, std::uint64_t size, bool next = false) const {
    const std::uint64_t offset = next ? kBrief : 0;
    EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
    EXPECT_EQ(outcome.report.bytes, size);
    EXPECT_EQ(std::string(memory_ + offset, size), std::string(storage_->content.data() + offset, size));
  }

  char* memory_ = nullptr;
};

TEST_F(BriefReadTest, IsCopiedByItsCallerAndEveryThread) {
  hold_transfers_up();
  Outcome outcome;
  std::thread caller([&] { outcome = read(kBrief); });
  barrier_.wait_for(kThreads + 1);
  barrier_.open();
  caller.join();
  expect_content(outcome, kBrief);
}

TEST_F(BriefReadTest, HalfAMebibyteIsWorthOneThreadMoreAndLessIsNot) {
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

TEST_F(BriefReadTest, GetsNoThreadsThatOthersHave) {
  hold_transfers_up();
  Outcome first, second;
  std::thread caller([&] { first = read(kBrief); });
  barrier_.wait_for(kThreads + 1);
  std::thread other([&] { second = read(kLarge, true); });
  barrier_.wait_for(kThreads + 2);
  give_time_to_go_wrong();
  EXPECT_EQ(barrier_.arrived(), kThreads + 2);
  barrier_.open();
  caller.join();
  other.join();
  expect_content(first, kBrief);
  expect_content(second, kLarge, true);
}

TEST_F(BriefReadTest, EndsWhereTheFileDoes) {
  storage_->content.resize(kBrief - 12345);
  const Outcome outcome = read(kBrief);
  expect_content(outcome, kBrief - 12345);
}

TEST_F(BriefReadTest, ManyAtOnceAndOneAfterTheOtherAreRight) {
  std::vector<std::thread> callers;
  for (unsigned number = 0; number < 2; ++number) {
    callers.emplace_back([&, number] {
      for (unsigned i = 0; i < 50; ++i) {
        const std::uint64_t size = kBrief - i * 33'333;
        expect_content(read(size, number == 1), size, number == 1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// Its channels are shorter than half a mebibyte.
class ShortOfMemoryBriefReadTest : public BriefReadTest {
 protected:
  ShortOfMemoryBriefReadTest() : BriefReadTest(std::uint64_t{2} << 20) {}
};

TEST_F(ShortOfMemoryBriefReadTest, EverySizeIsReadWhole) {
  for (std::uint64_t size = 64u << 10; size <= kBrief; size += 64u << 10) expect_content(read(size - 1), size - 1);
}

}  // namespace
}  // namespace penstock::core
