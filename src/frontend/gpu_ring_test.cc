// SPDX-License-Identifier: Apache-2.0

// Kernels, on the host, that ask a ring whose reads fail in every way.
#include "frontend/gpu_ring.h"

#include <random>

#include "fakes/gpu_ring_fixture.h"

namespace penstock::core {
namespace {

using gpu::Error;
using GpuRingTest = GpuRingFixture;

TEST_F(GpuRingTest, ReadsOfEverySizeAndPlaceGiveTheBytesAndNoOthers) {
  const gpu::File file = open({.threads = 2, .slots = 4, .slot_bytes = 512}, kForEver);
  expect_right_reads(file, 150, [](auto& random, unsigned) {
    const std::uint64_t offset = random() % kSize;
    return Range{offset, random() % 5000};
  });
  EXPECT_EQ(owned(gpu::kFree), 4u);
}

TEST_F(GpuRingTest, AReadEndsWithTheFile) {
  const gpu::File file = open({.slots = 2, .slot_bytes = 512}, kForEver);
  char memory[64];
  EXPECT_EQ(file.read(gpu::Thread(), kSize - 10, 64, memory).bytes, 10u);
  const unsigned asked = reader_.asked;
  for (const std::uint64_t offset : {kSize, kSize + 1, UINT64_MAX}) {
    const gpu::Result result = file.read(gpu::Thread(), offset, 64, memory);
    EXPECT_EQ(result.bytes, 0u);
    EXPECT_EQ(result.error, Error::none);
  }
  EXPECT_EQ(file.read(gpu::Thread(), 0, 0, memory).error, Error::none);
  EXPECT_EQ(reader_.asked, asked);
}

TEST_F(GpuRingTest, AReadThatFailsSaysWhyAndWhatWasReadBefore) {
  const gpu::File file = open({.slots = 2, .slot_bytes = 512}, kForEver);
  char memory[64];
  reader_.error = EIO;
  const gpu::Result result = file.read(gpu::Thread(), 0, 64, memory);
  EXPECT_EQ(result.error, Error::os);
  EXPECT_EQ(result.detail, EIO);
  EXPECT_EQ(result.bytes, 0u);
  EXPECT_EQ(owned(gpu::kFree), 2u);
}

TEST_F(GpuRingTest, AWaiterGoesAtItsDeadlineAndItsSlotIsUsedAgainOnceItWasAnswered) {
  const gpu::File file = open({.slots = 1, .slot_bytes = 512}, kAMoment);
  char memory[64];
  reader_.stands_still = true;

  EXPECT_EQ(file.read(gpu::Thread(), 0, 64, memory).error, Error::timed_out);
  EXPECT_EQ(file.read(gpu::Thread(), 0, 64, memory).error, Error::ring_full);

  EXPECT_EQ(owned(gpu::kAbandoned), 1u);
  reader_.stands_still = false;
  gpu::Result result;
  EXPECT_TRUE(wait_until([&] { return (result = file.read(gpu::Thread(), 99, 64, memory)).error == Error::none; }));
  EXPECT_TRUE(is_right(99, std::string(memory, 64), 64));
  EXPECT_EQ(owned(gpu::kFree), 1u);
}

TEST_F(GpuRingTest, AllThatWaitAreToldWhenItStops) {
  const gpu::File file = open({.slots = 2, .slot_bytes = 512}, kForEver);
  reader_.stands_still = true;
  std::atomic<unsigned> closed{0};
  for (unsigned i = 0; i < 6; ++i) {
    kernels_.launch(2, [&](const Lane& lane) {
      char memory[2000];
      if (file.read(lane, 0, 2000, memory).error == Error::closed) ++closed;
    });
  }
  ASSERT_TRUE(wait_until([&] { return reader_.asked > 0; }));
  std::thread stopping([&] { ring_->stop(); });  // It waits for the read that stands still.

  kernels_.wait();

  EXPECT_EQ(closed, 12u);
  reader_.is_over = true;
  stopping.join();
}

TEST_F(GpuRingTest, AThreadThatEndsIsNoReasonToWait) {
  const gpu::File file = open({.threads = 2, .slots = 2, .slot_bytes = 512}, kForEver);
  reader_.ends_thread = true;
  char memory[64];
  EXPECT_EQ(file.read(gpu::Thread(), 0, 64, memory).error, Error::proxy_gone);
  EXPECT_EQ(file.read(gpu::Thread(), 0, 64, memory).error, Error::proxy_gone);
}

// Its own later reads hold slots when it waits for an earlier one that had found none.
TEST_F(GpuRingTest, ReadsThatWereBegunLeaveASlotForWhoWaits) {
  for (const unsigned slots : {1u, 2u, 4u}) {
    const gpu::File file = open({.slots = slots, .slot_bytes = 512}, kTooLong);
    char memory[16][64];
    gpu::Pending pending[16];
    const auto begin = [&](unsigned i) { pending[i] = file.read_async(gpu::Thread(), i * 99, 64, memory[i]); };
    const auto wait = [&](unsigned i) {
      EXPECT_EQ(file.wait(gpu::Thread(), pending[i]).error, Error::none) << i << " of " << slots << " slots";
      EXPECT_TRUE(is_right(i * 99, std::string(memory[i], 64), 64));
    };
    for (unsigned i = 0; i < 8; ++i) begin(i);
    for (unsigned i = 0; i < 4; ++i) wait(i);
    for (unsigned i = 8; i < 16; ++i) begin(i);
    for (unsigned i = 4; i < 16; ++i) wait(i);
    EXPECT_EQ(owned(gpu::kFree), slots);
  }
}

TEST_F(GpuRingTest, WhoWaitsFindsTheOnlySlotThatIsFree) {
  const gpu::File file = open({.slots = 300, .slot_bytes = 512}, kTooLong);
  char memory[64];
  for (const unsigned free : {0u, 150u, 299u}) {
    std::fill(owners_.begin(), owners_.end(), gpu::kTaken);
    owners_[free] = gpu::kFree;
    EXPECT_EQ(file.read(gpu::Thread(), 99, 64, memory).error, Error::none) << free;
    EXPECT_EQ(owners_[free] % 4, gpu::kFree);
  }
}

// A kernel may write anything there by mistake.
TEST_F(GpuRingTest, NonsenseInASlotIsRefused) {
  const gpu::File file = open({.slots = 1, .slot_bytes = 512}, kForEver);
  gpu::Layout layout;
  std::memcpy(&layout, &file, sizeof layout);
  gpu::Word number = 0;
  constexpr std::pair<gpu::Word, std::uint32_t> kWrong[] = {{gpu::kRead, 513u},
                                                            {gpu::kRead, UINT32_MAX},
                                                            {gpu::kRead, 0u},
                                                            {gpu::kPrefetch, 0u},
                                                            {gpu::kPrefetch, gpu::kPrefetchBytes + 1},
                                                            {2u, 64u},
                                                            {3u, 64u}};
  for (const auto& [kind, bytes] : kWrong) {
    gpu::detail::post(layout.requests, gpu::request(kind, ++number, 0, bytes));
    ASSERT_TRUE(wait_until([&] { return gpu::number_of(gpu::detail::acquire(&layout.slots[0].answer)) == number; }));
    EXPECT_EQ(gpu::error_of(layout.slots[0].answer), Error::refused);
  }
  EXPECT_EQ(reader_.asked, 0u);
}

// Stores of a GPU's arrive in any order.
TEST_F(GpuRingTest, HalfARequestIsNotAnsweredBeforeTheOtherHalfHasCome) {
  const gpu::File file = open({.slots = 1, .slot_bytes = 512}, kForEver);
  gpu::Layout layout;
  std::memcpy(&layout, &file, sizeof layout);
  const gpu::Request request = gpu::request(gpu::kRead, 1, 99, 64);
  std::atomic_ref(layout.requests->what).store(request.what);
  give_time_to_go_wrong();
  EXPECT_EQ(reader_.asked, 0u);

  std::atomic_ref(layout.requests->place).store(request.place);

  ASSERT_TRUE(wait_until([&] { return gpu::number_of(gpu::detail::acquire(&layout.slots[0].answer)) == 1; }));
  EXPECT_EQ(std::memcmp(layout.staging, reader_.content.data() + 99, 64), 0);
}

// Ten thousand reads, of which some fail, some are late, and some find no slot: each ends, and what succeeds is right.
TEST_F(GpuRingTest, EveryReadEndsAndNoneIsWrongWhateverFails) {
  const gpu::File file = open({.threads = 2, .slots = 3, .slot_bytes = 512}, 300'000);
  reader_.chances = 40;
  std::atomic<unsigned> ended{0}, right{0}, wrong{0};
  for (unsigned kernel = 0; kernel < 5; ++kernel) {
    kernels_.launch(1, [&, kernel](const Lane&) {
      std::minstd_rand random(kernel + 1);
      std::string memory(2000, 0);
      for (unsigned i = 0; i < 2000; ++i, ++ended) {
        const std::uint64_t offset = random() % kSize, bytes = random() % 1500 + 1;
        const gpu::Result result = file.read(gpu::Thread(), offset, bytes, memory.data());
        if (!is_right(offset, memory, result.bytes)) ++wrong;
        else if (result.error == Error::none) ++right;
      }
    });
  }
  kernels_.wait();
  EXPECT_EQ(ended, 10'000u);
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(right, 0u);
  EXPECT_LT(right, 10'000u) << "no fault was seen";
  RecordProperty("reads_that_failed", static_cast<int>(10'000 - right - wrong));
  EXPECT_EQ(owned(gpu::kTaken), 0u);
}

}  // namespace
}  // namespace penstock::core
