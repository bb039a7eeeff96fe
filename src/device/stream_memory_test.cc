// SPDX-License-Identifier: Apache-2.0

#include "device/stream_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "device/stream_home.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kKib = 1024, kMib = 1024 * kKib;
constexpr std::uint64_t kShift = 0x1000'0000'0000;

// Pins like a device that sees host memory at other addresses; its streams do nothing.
class PinningHome final : public StreamHome, private StreamWork {
 public:
  PinningHome() : StreamHome(this) {}
  unsigned pins = 0;
  Status refuses;
  std::uint64_t others_reach = 0;  // Others have unmapped pinned memory on either side of what was asked for first.

  bool has_words() const override { return true; }
  bool reaches(const PointerFacts&, const void*) const override { return true; }
  bool is_through(void*) override { return false; }
  Status call(void*, void (*)(void*), void*) override { return success(); }
  Status copy(void*, const StreamBlock&, const StreamCopy&, std::uint64_t) override { return success(); }
  Status copy_at_once(void*, const StreamBlock&, const StreamCopy&) override { return success(); }
  Status wait(void*, const StreamBlock&, const std::uint32_t&, std::uint32_t) override { return success(); }
  Status write(void*, const StreamBlock&, const std::uint32_t&, std::uint32_t) override { return success(); }
  void set(std::uint32_t& word, std::uint32_t value) override { word = value; }
  Status drain(void*) override { return success(); }

 private:
  const void* pages_context() const override { return nullptr; }
  Status pin(void* memory, std::size_t, std::uint64_t& shift) override {
    const auto at = reinterpret_cast<std::uintptr_t>(memory);
    if (++pins == 1) first_ = at;
    shift = pins * kShift;
    const bool is_of_others = std::max(first_, at) - std::min(first_, at) < others_reach;
    return is_of_others ? failure(Code::already_registered, "pin it, as scripted") : refuses;
  }
  std::uintptr_t first_ = 0;
};

class StreamMemoryTest : public testing::Test {
 protected:
  std::vector<StreamBlock*> take_all(std::uint64_t staging, std::uint64_t limit) {
    std::vector<StreamBlock*> blocks;
    for (;;) {
      const Result<StreamBlock*> block = memory_.take(staging, limit);
      if (!block.ok()) {
        EXPECT_TRUE(block.status().is(Code::limit)) << describe(block.status());
        return blocks;
      }
      blocks.push_back(*block);
    }
  }
  void give_all_back(const std::vector<StreamBlock*>& blocks) {
    for (StreamBlock* const block : blocks) memory_.give_back(*block);
  }

  PinningHome home_;
  StreamMemory& memory_ = home_.memory();
};

TEST_F(StreamMemoryTest, WhatIsCutForSmallRequestsServesLargeOnesAgain) {
  constexpr std::uint64_t kLimit = 16 * kMib;
  const std::vector<StreamBlock*> small = take_all(4 * kKib, kLimit);
  EXPECT_GT(small.size(), 3000u);
  EXPECT_FALSE(memory_.take(kMib, kLimit).ok());
  const std::uint64_t pinned = memory_.bytes();

  give_all_back(small);

  EXPECT_GE(take_all(kMib, kLimit).size(), 14u);
  EXPECT_EQ(memory_.bytes(), pinned);
}

TEST_F(StreamMemoryTest, WhatLargeRequestsHadServesSmallOnes) {
  constexpr std::uint64_t kLimit = 64 * kMib;
  give_all_back(take_all(4 * kMib, kLimit));

  EXPECT_GT(take_all(8 * kKib, kLimit).size(), 1500u);
}

TEST_F(StreamMemoryTest, BlocksShareNothing) {
  std::vector<StreamBlock*> blocks;
  for (const std::uint64_t size : {4 * kKib, 100 * kKib, std::uint64_t{1}, 3 * kMib, 64 * kKib, std::uint64_t{0}}) {
    blocks.push_back(*memory_.take(size, 64 * kMib));
    EXPECT_GE(blocks.back()->staging_bytes(), size);
    if (size == 0) continue;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back()->staging()) % 4096, 0u);
    std::memset(blocks.back()->staging(), static_cast<int>(blocks.size()), blocks.back()->staging_bytes());
  }
  for (StreamBlock* const block : blocks) block->word(0) = block->acknowledged() = 0xffffffff;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (std::uint64_t at = 0; at < blocks[i]->staging_bytes(); ++at) {
      ASSERT_EQ(blocks[i]->staging()[at], static_cast<std::byte>(i + 1)) << i << ", byte " << at;
    }
  }
}

TEST_F(StreamMemoryTest, WordsAndStagingAreWhereTheDeviceSeesEach) {
  StreamBlock& block = **memory_.take(64 * kKib, 64 * kMib);
  ASSERT_EQ(home_.pins, 2u);
  const auto number = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at); };
  EXPECT_EQ(block.device_address(&block.word(1)), number(&block.word(1)) + kShift);
  EXPECT_EQ(block.device_address(block.staging() + 5), number(block.staging() + 5) + 2 * kShift);
  EXPECT_EQ(block.device_address(block.staging() + block.staging_bytes() - 1),
            number(block.staging() + block.staging_bytes() - 1) + 2 * kShift);
}

TEST_F(StreamMemoryTest, SmallRequestsLeaveALargeSlabWhole) {
  StreamBlock& large = **memory_.take(16 * kMib, 64 * kMib);
  memory_.give_back(large);

  (void)memory_.take(4 * kKib, 64 * kMib);
  const std::uint64_t pinned = memory_.bytes();

  EXPECT_TRUE(memory_.take(16 * kMib, 64 * kMib).ok());
  EXPECT_EQ(memory_.bytes(), pinned);
}

TEST_F(StreamMemoryTest, SmallRequestsBreakALargeSlabWhereNothingElseMayBePinned) {
  StreamBlock& large = **memory_.take(16 * kMib, 17 * kMib);
  memory_.give_back(large);

  EXPECT_GT(take_all(64 * kKib, 17 * kMib).size(), 200u);
}

// The memory of blocks never becomes staging.
TEST_F(StreamMemoryTest, RequestsWithoutStagingLeaveRoomForOthers) {
  constexpr std::uint64_t kLimit = 2 * kMib;
  const std::vector<StreamBlock*> words = take_all(0, kLimit);
  EXPECT_GE(words.size(), 500u);
  give_all_back(words);

  EXPECT_TRUE(memory_.take(kMib, kLimit).ok());
}

// A stream may read a word after its request has ended and the block belongs to another request.
TEST_F(StreamMemoryTest, WordsStayWordsWhateverIsStaged) {
  const std::vector<StreamBlock*> first = take_all(4 * kKib, 2 * kMib);
  std::vector<std::uint32_t*> words;
  for (StreamBlock* const block : first) {
    words.push_back(&block->word(0));
    *words.back() = block->begun[0] = 7;
  }
  give_all_back(first);

  for (StreamBlock* const block : take_all(256 * kKib, 2 * kMib)) {
    std::memset(block->staging(), 0, block->staging_bytes());
  }

  for (const std::uint32_t* const word : words) EXPECT_EQ(*word, 7u);
}

TEST_F(StreamMemoryTest, StagingWaitsForTheStreamThatReadsIt) {
  constexpr std::uint64_t kLimit = 2 * kMib;
  const std::vector<StreamBlock*> blocks = take_all(256 * kKib, kLimit);
  StreamBlock& held = *blocks.front();
  held.to_be_acknowledged = 1;
  memory_.give_back_when_acknowledged(held);
  EXPECT_FALSE(memory_.take(256 * kKib, kLimit).ok());
  EXPECT_FALSE(memory_.is_quiet(blocks.size() - 1));

  held.acknowledged() = 1;

  EXPECT_TRUE(memory_.is_quiet(blocks.size() - 1));
  EXPECT_TRUE(memory_.take(256 * kKib, kLimit).ok());
}

TEST_F(StreamMemoryTest, WhatCannotBePinnedIsToldAndAskedForAgain) {
  home_.refuses = failure(Code::out_of_memory, "page-lock");
  EXPECT_FALSE(memory_.take(4 * kKib, 64 * kMib).ok());
  EXPECT_EQ(memory_.bytes(), 0u);

  home_.refuses = success();

  EXPECT_TRUE(memory_.take(4 * kKib, 64 * kMib).ok());
}

TEST_F(StreamMemoryTest, ALargeRegionThatOthersUnmappedAndDidNotUnregisterIsNotTaken) {
  home_.others_reach = 256 * kMib;
  const Result<StreamBlock*> block = memory_.take(4 * kKib, 64 * kMib);
  ASSERT_TRUE(block.ok()) << describe(block.status());
  (*block)->word(0) = 1;
  std::memset((*block)->staging(), 1, (*block)->staging_bytes());
  EXPECT_GT(home_.pins, 2u);
}

TEST_F(StreamMemoryTest, WhatNoLimitAllowsIsRefused) {
  EXPECT_TRUE(memory_.take(4 * kKib, 0).status().is(Code::limit));
  EXPECT_TRUE(memory_.take(UINT64_MAX, UINT64_MAX).status().is(Code::limit));
  EXPECT_TRUE(memory_.take(2 * kMib, kMib).status().is(Code::limit));
  EXPECT_LE(memory_.bytes(), kMib);
}

}  // namespace
}  // namespace penstock::core
