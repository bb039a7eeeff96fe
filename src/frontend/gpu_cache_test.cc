// SPDX-License-Identifier: Apache-2.0

// Kernels, on the host, read through a cache in device memory: frames are evicted while they are read, and blocks are
// wanted that others have asked for.
#include <algorithm>
#include <random>

#include "fakes/gpu_ring_fixture.h"

namespace penstock::core {
namespace {

using gpu::Error;

constexpr std::uint32_t kBlock = 512;
constexpr unsigned kFrames = gpu::kWays;  // A cache of one set has so many.

class GpuCacheTest : public GpuRingFixture {
 protected:
  void TearDown() override {
    gpu::detail::fetch_pages = nullptr;
    GpuRingFixture::TearDown();
  }
  bool reads_right(const gpu::File& file, std::uint64_t offset, std::uint64_t bytes) const {
    std::string memory(bytes, 'x');
    const gpu::Result result = file.read(gpu::Thread(), offset, bytes, memory.data());
    return result.error == Error::none && result.bytes == bytes && is_right(offset, memory, bytes);
  }
  gpu::Long sum(gpu::Long gpu::Counts::*what) const {
    gpu::Long all = 0;
    for (const gpu::Counts& each : counts_) all += each.*what;
    return all;
  }
  gpu::Long fetched() const { return sum(&gpu::Counts::fetched); }
  gpu::Long cached_reads() const { return sum(&gpu::Counts::cached_reads); }
  // Frames that neither have a block nor are empty.
  unsigned unfinished() const {
    unsigned count = 0;
    for (const gpu::CacheSet& set : sets_) {
      for (const gpu::Long word : set.frames) count += word % 4 == gpu::kAsked || word % 4 == gpu::kFilling;
    }
    return count;
  }
};

TEST_F(GpuCacheTest, ABlockIsAskedForOnceAndThenFound) {
  const gpu::File file = open({.slots = 4, .slot_bytes = kBlock}, kForEver, 4);
  for (unsigned i = 0; i < 3; ++i) EXPECT_TRUE(reads_right(file, 5 * kBlock + 7, 100));
  EXPECT_TRUE(reads_right(file, 5 * kBlock + 99, 2 * kBlock));
  EXPECT_EQ(reader_.asked, 3u);
  EXPECT_EQ(fetched(), 3u);
  EXPECT_EQ(cached_reads(), 4u);
}

// Whenever its lanes meet, others have claimed and filled the frames anew.
class Unlucky : public gpu::Thread {
 public:
  explicit Unlucky(std::vector<gpu::CacheSet>& sets) : sets_(sets) {}
  void sync() const {
    for (gpu::CacheSet& set : sets_) {
      for (gpu::Long& word : set.frames) word += word % 4 == gpu::kFull ? 4 : 0;
    }
  }

 private:
  std::vector<gpu::CacheSet>& sets_;
};

TEST_F(GpuCacheTest, ABlockWhoseFrameIsClaimedEachTimeIsReadByTheRingWithAllOfTheTime) {
  const gpu::File file = open({.slots = 4, .slot_bytes = kBlock}, kTooLong, 1);
  ASSERT_TRUE(reads_right(file, 0, 100));
  std::string memory(100, 'x');
  const gpu::Result result = file.read(Unlucky(sets_), 0, memory.size(), memory.data());
  EXPECT_EQ(result.error, Error::none);
  EXPECT_TRUE(is_right(0, memory, memory.size()));
  EXPECT_EQ(reader_.asked, 2u);
}

TEST_F(GpuCacheTest, ReadsOfEverySizeAndPlaceGiveTheBytesAndNoOthers) {
  const gpu::File file = open({.threads = 2, .slots = 4, .slot_bytes = kBlock}, kForEver, 3);
  expect_right_reads(file, 100, [](auto& random, unsigned i) {
    const std::uint64_t from = i % 2 == 0 ? kSize - 9000 : 0;  // The last block is not whole.
    const std::uint64_t offset = from + random() % 9000;
    return Range{offset, random() % 3000};
  });
  EXPECT_LT(reader_.asked, 300u) << "nothing was found";
  EXPECT_EQ(owned(gpu::kFree), 4u);
}

TEST_F(GpuCacheTest, ABlockThatManyWantAtOnceIsAskedForOnce) {
  const gpu::File file = open({.slots = 16, .slot_bytes = kBlock}, kForEver, 2);
  reader_.stands_still = true;
  std::atomic<unsigned> right{0};
  for (unsigned i = 0; i < 6; ++i) {
    kernels_.launch(1, [&, i](const Lane&) { right += reads_right(file, 9 * kBlock + i, 50); });
  }
  ASSERT_TRUE(wait_until([&] { return reader_.asked > 0; }));
  give_time_to_go_wrong();
  reader_.stands_still = false;
  kernels_.wait();
  EXPECT_EQ(right, 6u);
  EXPECT_EQ(reader_.asked, 1u);
}

// Its group may wait for those that want its block.
TEST_F(GpuCacheTest, WhoHasAskedForABlockAndDoesNotWaitKeepsNobodyFromReadingIt) {
  const gpu::File file = open({.slots = 4, .slot_bytes = kBlock}, kTooLong, 1);
  char memory[64];
  const gpu::Pending pending = file.read_async(gpu::Thread(), 3 * kBlock, sizeof memory, memory);
  ASSERT_TRUE(pending.is_posted);

  EXPECT_TRUE(reads_right(file, 3 * kBlock + 1, 60));

  EXPECT_EQ(file.wait(gpu::Thread(), pending).error, Error::none);
  EXPECT_TRUE(is_right(3 * kBlock, std::string(memory, 64), 64));
  EXPECT_EQ(unfinished(), 0u);
  const unsigned asked = reader_.asked;
  EXPECT_TRUE(reads_right(file, 3 * kBlock, 64));
  EXPECT_EQ(reader_.asked, asked) << "the wait has filled the frame";
}

TEST_F(GpuCacheTest, AGroupsLanesFillTheFrameThatItsLeaderHasClaimed) {
  const gpu::File file = open({.slots = 16, .slot_bytes = kBlock}, kForEver, 1);
  constexpr unsigned kReads = 5;
  std::string memory[kReads];
  for (std::string& each : memory) each.assign(kBlock, 'x');
  kernels_.launch(3, [&](const Lane& lane) {
    gpu::Pending pending[kReads];
    for (unsigned i = 0; i < kReads; ++i) pending[i] = file.read_async(lane, i * kBlock, kBlock, memory[i].data());
    for (const gpu::Pending& each : pending) (void)file.wait(lane, each);
  });
  kernels_.wait();
  for (unsigned i = 0; i < kReads; ++i) {
    EXPECT_TRUE(is_right(i * kBlock, memory[i], kBlock)) << i;
    EXPECT_TRUE(reads_right(file, i * kBlock, kBlock)) << i << ", out of its frame";
  }
  EXPECT_EQ(reader_.asked, kReads);
}

TEST_F(GpuCacheTest, FramesThatWereOnlyAskedForGoToOthers) {
  const gpu::File file = open({.slots = 64, .slot_bytes = kBlock}, kTooLong, 1);
  char memory[kFrames][64];
  gpu::Pending pending[kFrames];
  for (unsigned i = 0; i < kFrames; ++i) {
    pending[i] = file.read_async(gpu::Thread(), i * kBlock, 64, memory[i]);
    ASSERT_TRUE(pending[i].is_posted);
  }
  EXPECT_EQ(unfinished(), kFrames);
  EXPECT_TRUE(reads_right(file, 100 * kBlock, 64));
  const unsigned asked = reader_.asked;
  EXPECT_TRUE(reads_right(file, 100 * kBlock, 64));
  EXPECT_EQ(reader_.asked, asked);

  for (unsigned i = 0; i < kFrames; ++i) {
    EXPECT_EQ(file.wait(gpu::Thread(), pending[i]).bytes, 64u);
    EXPECT_TRUE(is_right(i * kBlock, std::string(memory[i], 64), 64));
  }
  EXPECT_EQ(unfinished(), 0u);
  EXPECT_EQ(owned(gpu::kFree), 64u);
}

TEST_F(GpuCacheTest, WhatIsReadOftenStaysWhileOthersPass) {
  const gpu::File file = open({.slots = 4, .slot_bytes = kBlock}, kForEver, 1);
  ASSERT_TRUE(reads_right(file, 0, 64));
  for (unsigned block = 1; block < 10 * kFrames; ++block) {
    ASSERT_TRUE(reads_right(file, 0, 64));
    ASSERT_TRUE(reads_right(file, block * kBlock, 64));
  }
  EXPECT_EQ(reader_.asked, 10 * kFrames);
}

// The hook below reads it while a frame is read.
const gpu::File* evicting = nullptr;

TEST_F(GpuCacheTest, AFrameThatIsEvictedWhileItIsReadIsNotBelieved) {
  const gpu::File file = open({.slots = 4, .slot_bytes = kBlock}, kForEver, 1);
  ASSERT_TRUE(reads_right(file, 0, kBlock));
  evicting = &file;
  gpu::detail::fetch_pages = [](void*, const void*, unsigned long) {
    const gpu::File* const other = std::exchange(evicting, nullptr);
    char memory[kBlock];
    for (unsigned i = 1; other != nullptr && i <= 2 * kFrames; ++i) {
      (void)other->read(gpu::Thread(), i * kBlock, kBlock, memory);
    }
    return false;
  };

  EXPECT_TRUE(reads_right(file, 0, kBlock));

  EXPECT_EQ(evicting, nullptr);
  EXPECT_EQ(reader_.asked, 2 * kFrames + 2) << "the block is fetched once more";
}

TEST_F(GpuCacheTest, ABlockThatCannotBeReadIsNotKept) {
  const gpu::File file = open({.slots = 2, .slot_bytes = kBlock}, kForEver, 1);
  char memory[64];
  reader_.error = EIO;
  const gpu::Result result = file.read(gpu::Thread(), 0, 64, memory);
  EXPECT_EQ(result.error, Error::os);
  EXPECT_EQ(result.detail, EIO);
  EXPECT_EQ(unfinished(), 0u);
  reader_.error = 0;
  EXPECT_TRUE(reads_right(file, 0, 64));
}

// Kernels read blocks of which most are evicted, some reads fail, some are late, and some find no slot.
TEST_F(GpuCacheTest, EveryReadEndsAndNoneIsWrongWhateverFailsAndIsEvicted) {
  for (const bool fails : {false, true}) {
    const gpu::File file = open({.threads = 2, .slots = 3, .slot_bytes = kBlock}, fails ? 300'000 : kForEver, 2);
    reader_.chances = fails ? 40 : 0;
    std::atomic<unsigned> right{0}, wrong{0};
    for (unsigned kernel = 0; kernel < 5; ++kernel) {
      kernels_.launch(1, [&, kernel](const Lane&) {
        std::minstd_rand random(kernel + 1);
        std::string memory(2000, 0);
        for (unsigned i = 0; i < 2000; ++i) {
          const std::uint64_t range = i % 2 == 0 ? 10'000 : kSize;  // Half of them fit.
          const std::uint64_t offset = random() % range, bytes = random() % 1500 + 1;
          const gpu::Result result = file.read(gpu::Thread(), offset, bytes, memory.data());
          if (!is_right(offset, memory, result.bytes)) ++wrong;
          else if (result.error == Error::none) ++right;
        }
      });
    }
    kernels_.wait();
    EXPECT_EQ(wrong, 0u);
    EXPECT_GT(right, 0u);
    EXPECT_EQ(right == 10'000u, !fails);
    EXPECT_EQ(unfinished(), 0u);
    EXPECT_EQ(owned(gpu::kTaken), 0u);
    ring_->stop();
  }
}

}  // namespace
}  // namespace penstock::core
