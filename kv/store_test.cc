// SPDX-License-Identifier: Apache-2.0

#include "kv/store.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "kv/fake_volume.h"
#include "kv/follower.h"
#include "kv/test_chunks.h"

namespace penstock::kv {
namespace {

constexpr std::uint64_t kExtent = 256 << 10;
constexpr std::uint64_t kSlab = 4 * kExtent;
constexpr std::size_t kChunk =
    28 << 10;  // With its header it takes a slot of 32 KiB, so that 32 chunks fit, 8 to an extent.

class StoreTest : public testing::Test {
 protected:
  std::unique_ptr<Store> open(Eviction eviction = Eviction::recent_use, std::uint64_t name = 0) {
    return std::move(Store::open(volume, {name_of(name), kSlab, kExtent, eviction}).value());
  }
  static Outcome look(Store& store, std::uint64_t key, std::size_t bytes = kChunk) {
    return get_first(store, key, bytes);
  }
  static Outcome put_whole(Store& store, std::uint64_t key, std::size_t bytes = kChunk, float cost = 0) {
    return put(store, key, content_of(key, 0, bytes), cost);
  }

  FakeVolume volume{kSlab, 1};
};

TEST_F(StoreTest, WhatIsPutComesBackAndOtherKeysAreMisses) {
  const auto store = open();
  EXPECT_EQ(put_whole(*store, 1), Outcome::done);
  EXPECT_EQ(put_whole(*store, 1), Outcome::present);
  EXPECT_EQ(look(*store, 1), Outcome::done);
  EXPECT_EQ(look(*store, 2), Outcome::miss);
  EXPECT_EQ(look(*store, 1, kChunk + 1), Outcome::mismatch);
  EXPECT_EQ(store->size_of(name_of(1)), kChunk);
  EXPECT_TRUE(store->erase(name_of(1)));
  EXPECT_FALSE(store->erase(name_of(1)));
  EXPECT_EQ(look(*store, 1), Outcome::miss);
}

TEST_F(StoreTest, ChunksThatAreCopiedIntoOneBufferAreNotTakenForDamaged) {
  volume.is_copied = true;
  const auto store = open();
  put_whole(*store, 1);
  put_whole(*store, 2);
  std::vector<std::byte> bytes(kChunk);
  const iovec piece{bytes.data(), bytes.size()};
  Request both[] = {{.key = name_of(1), .pieces = {&piece, 1}, .is_host = true},
                    {.key = name_of(2), .pieces = {&piece, 1}, .is_host = true}};
  store->get(each_of(both));
  EXPECT_EQ(both[0].outcome, Outcome::done);
  EXPECT_EQ(both[1].outcome, Outcome::done);
  EXPECT_EQ(look(*store, 1), Outcome::done);
  EXPECT_EQ(bytes, content_of(2, 0, kChunk));
}

// A chunk with an invalid cost can be evicted like any other: nothing is pinned here, so no put is refused.
TEST_F(StoreTest, ChunksOfOneCallAreCheckedWhileOthersArrive) {
  const auto store = open();
  std::vector<std::vector<std::byte>> memories(3, std::vector<std::byte>(kChunk));
  std::vector<iovec> pieces;
  std::vector<Request> requests;
  for (std::uint64_t key = 0; key < memories.size(); ++key) {
    put_whole(*store, key);
    pieces.push_back({memories[key].data(), kChunk});
  }
  for (std::uint64_t key = 0; key < memories.size(); ++key) requests.push_back({name_of(key), {&pieces[key], 1}});
  volume.done = {};
  volume.summed_at.clear();

  store->get(each_of(requests));

  for (const Request& one : requests) EXPECT_EQ(one.outcome, Outcome::done);
  EXPECT_EQ(volume.summed_at.back(), 2 * kChunk) << "the last one arrived before others had been checked";
  EXPECT_EQ(volume.done.summed_bytes, 3 * kChunk);
}

TEST_F(StoreTest, CostsThatAreNoNumbersDoNotBreakTheOrderOfChunks) {
  constexpr float kBad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(), -1};
  for (const float bad : kBad) {
    volume = FakeVolume(kSlab, 1);
    const auto store = open(Eviction::cost);
    std::mt19937_64 random(7);
    for (int i = 0; i < 4000; ++i) {
      const std::uint64_t key = random() % 300;
      const float costs[] = {bad, 1, 5, 0.1F};
      const std::size_t sizes[] = {100, 4000, 9000, 20'000, 60'000};
      const Outcome outcome = put_whole(*store, key, sizes[key % 5], costs[random() % 4]);
      ASSERT_TRUE(outcome == Outcome::done || outcome == Outcome::present) << i << ", cost " << bad;
      if (random() % 5 == 0) store->erase(name_of(random() % 300));
    }
    ASSERT_TRUE(store->close().ok());
  }
}

TEST_F(StoreTest, AJournalWithCostsThatAreNoNumbersIsTakenUpInOrder) {
  {
    const auto store = open(Eviction::cost);
    constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();
    for (std::uint64_t key = 0; key < 32; ++key) put_whole(*store, key, kChunk, kNoNumber);
    ASSERT_TRUE(store->close().ok());
  }
  const auto store = open(Eviction::cost);
  EXPECT_EQ(store->state().chunks, 32u);
  for (std::uint64_t key = 100; key < 140; ++key) EXPECT_EQ(put_whole(*store, key), Outcome::done) << key;
  EXPECT_EQ(store->state().chunks, 32u);
}

TEST_F(StoreTest, PayloadsOfEverySizeFit) {
  const auto store = open();
  std::uint64_t key = 0;
  for (const std::size_t bytes : {0u, 1u, 4095u, 4096u, 4097u, 100'000u}) {
    EXPECT_EQ(put_whole(*store, ++key, bytes), Outcome::done) << bytes;
    EXPECT_EQ(look(*store, key, bytes), Outcome::done) << bytes;
  }
  EXPECT_EQ(put_whole(*store, 90, kExtent - kHeaderBytes), Outcome::done);
  EXPECT_EQ(look(*store, 90, kExtent - kHeaderBytes), Outcome::done);
  EXPECT_EQ(put_whole(*store, 91, kExtent - kHeaderBytes + 1), Outcome::large);
}

TEST_F(StoreTest, PiecesAreWrittenAndReadInTheirOrder) {
  const auto store = open();
  std::vector<std::byte> content = content_of(1, 0, kChunk), memory(kChunk);
  const iovec parts[] = {{content.data(), 5000}, {content.data() + 5000, 3}, {content.data() + 5003, kChunk - 5003}};
  const iovec others[] = {{memory.data(), 1}, {memory.data() + 1, kChunk - 1}};
  Request request{name_of(1), parts};
  store->put(each_of({&request, 1}));
  ASSERT_EQ(request.outcome, Outcome::done);
  request.pieces = others;
  store->get(each_of({&request, 1}));
  EXPECT_EQ(request.outcome, Outcome::done);
  EXPECT_EQ(memory, content);
}

TEST_F(StoreTest, TheOneThatWasUsedLongestAgoMakesRoomUnlessItIsPinned) {
  const auto store = open();
  for (std::uint64_t key = 0; key < 32; ++key) ASSERT_EQ(put_whole(*store, key), Outcome::done);
  ASSERT_TRUE(store->pin(name_of(0)));
  ASSERT_TRUE(store->touch(name_of(1)));
  ASSERT_FALSE(store->touch(name_of(99)));
  ASSERT_EQ(put_whole(*store, 32), Outcome::done);
  EXPECT_EQ(look(*store, 0), Outcome::done);
  EXPECT_EQ(look(*store, 1), Outcome::done);
  EXPECT_EQ(look(*store, 2), Outcome::miss);
  EXPECT_EQ(store->state().counts.evicted, 1u);
  for (std::uint64_t key = 3; key <= 32; ++key) store->pin(name_of(key));
  store->pin(name_of(1));
  EXPECT_EQ(put_whole(*store, 40), Outcome::full);
  EXPECT_TRUE(store->unpin(name_of(7)));
  EXPECT_FALSE(store->unpin(name_of(7)));
  EXPECT_EQ(put_whole(*store, 40), Outcome::done);
  EXPECT_EQ(look(*store, 7), Outcome::miss);
}

TEST_F(StoreTest, ByCostWhatIsDearStaysLonger) {
  const auto store = open(Eviction::cost);
  for (std::uint64_t key = 0; key < 32; ++key)
    ASSERT_EQ(put_whole(*store, key, kChunk, key < 8 ? 10 : 1), Outcome::done);
  for (std::uint64_t key = 32; key < 56; ++key) ASSERT_EQ(put_whole(*store, key, kChunk, 1), Outcome::done);
  for (std::uint64_t key = 0; key < 8; ++key) EXPECT_EQ(look(*store, key), Outcome::done) << key;
  EXPECT_EQ(look(*store, 8), Outcome::miss);
}

TEST_F(StoreTest, AnotherSizeTakesOverAnExtentThatNobodyUsed) {
  const auto store = open();
  for (std::uint64_t key = 0; key < 32; ++key) ASSERT_EQ(put_whole(*store, key), Outcome::done);
  for (std::uint64_t key = 100; key < 102; ++key) ASSERT_EQ(put_whole(*store, key, 100'000), Outcome::done);
  EXPECT_EQ(look(*store, 100, 100'000), Outcome::done);
  EXPECT_EQ(store->state().counts.evicted, 8u);
}

TEST_F(StoreTest, WhatWasCommittedIsThereAfterAPowerLossAndTheRestIsAMiss) {
  {
    const auto store = open();
    for (std::uint64_t key = 0; key < 8; ++key) put_whole(*store, key);
    ASSERT_TRUE(store->commit().ok());
    for (std::uint64_t key = 8; key < 16; ++key) put_whole(*store, key);
  }
  volume.lose_power();
  const auto store = open();
  for (std::uint64_t key = 0; key < 8; ++key) EXPECT_EQ(look(*store, key), Outcome::done) << key;
  for (std::uint64_t key = 8; key < 16; ++key) EXPECT_EQ(look(*store, key), Outcome::miss) << key;
}

TEST_F(StoreTest, AChunkThatIsBeingReadKeepsItsSlot) {
  const auto store = open();
  for (std::uint64_t key = 0; key < 32; ++key) put_whole(*store, key);
  volume.before_read = [&] {
    for (std::uint64_t key = 40; key < 80; ++key) put_whole(*store, key);
  };
  EXPECT_EQ(look(*store, 0), Outcome::done);
  volume.before_read = [&] {
    EXPECT_TRUE(store->erase(name_of(0)));
    for (std::uint64_t key = 100; key < 140; ++key) put_whole(*store, key);
    EXPECT_EQ(put_whole(*store, 0), Outcome::done);
  };
  EXPECT_EQ(look(*store, 0), Outcome::done);
  EXPECT_LE(store->state().used_bytes, kSlab);
  EXPECT_EQ(look(*store, 0), Outcome::done);
}

TEST_F(StoreTest, AReadThatEndsEarlyIsNoHitThoughTheMemoryHasTheRightBytes) {
  const auto store = open();
  for (std::uint64_t key = 0; key < 20; ++key) put_whole(*store, key);
  volume.faults.read = 1;
  for (std::uint64_t key = 0; key < 20; ++key) {
    std::vector<std::byte> memory = content_of(key, 0, kChunk);
    EXPECT_NE(get(*store, key, memory), Outcome::done) << key;
  }
}

TEST_F(StoreTest, WhatWasOverwrittenBeforeAPowerLossIsNotThere) {
  {
    const auto store = open();
    for (std::uint64_t key = 0; key < 32; ++key) put_whole(*store, key);
    ASSERT_TRUE(store->commit().ok());
    for (std::uint64_t key = 40; key < 44; ++key) put_whole(*store, key);
  }
  const auto store = open();
  for (std::uint64_t key = 0; key < 4; ++key) EXPECT_FALSE(store->contains(name_of(key))) << key;
  EXPECT_EQ(store->state().chunks, 28u);
  EXPECT_EQ(store->state().dropped_at_start, 4u);
}

TEST_F(StoreTest, WhatWasErasedAndCommittedDoesNotComeBack) {
  {
    const auto store = open();
    put_whole(*store, 1);
    ASSERT_TRUE(store->commit().ok());
    ASSERT_TRUE(store->erase(name_of(1)));
    ASSERT_TRUE(store->commit().ok());
  }
  volume.lose_power();
  EXPECT_FALSE(open()->contains(name_of(1)));
}

TEST_F(StoreTest, AClosedStoreIsTakenUpWithoutALookAtItsSlots) {
  {
    const auto store = open();
    for (std::uint64_t key = 0; key < 8; ++key) put_whole(*store, key);
    ASSERT_TRUE(store->close().ok());
  }
  volume.faults.read = 1;
  const auto store = open();
  EXPECT_EQ(store->state().chunks, 8u);
  volume.faults.read = 0;
  EXPECT_EQ(look(*store, 3), Outcome::done);
}

TEST_F(StoreTest, DamageIsAMissAndIsToldOnce) {
  const auto store = open();
  for (std::uint64_t key = 0; key < 3; ++key) put_whole(*store, key);
  volume.slab()[kHeaderBytes + 77] ^= std::byte{1};  // A bit of the first slot's payload.
  volume.slab()[(32 << 10) + 40] ^= std::byte{1};    // A bit of the second slot's header.
  // The third slot gets the second one's header.
  std::memcpy(&volume.slab()[64 << 10], &volume.slab()[32 << 10], 4096);
  for (std::uint64_t key = 0; key < 3; ++key) {
    EXPECT_EQ(look(*store, key), Outcome::damaged) << key;
    EXPECT_EQ(look(*store, key), Outcome::miss) << key;
  }
  EXPECT_EQ(put_whole(*store, 0), Outcome::done);
  EXPECT_EQ(look(*store, 0), Outcome::done);
}

TEST_F(StoreTest, AStoreOfAnotherNameIsNotLookedInto) {
  {
    const auto store = open();
    put_whole(*store, 1);
    ASSERT_TRUE(store->close().ok());
  }
  EXPECT_EQ(look(*open(Eviction::recent_use, 5), 1), Outcome::miss);
}

TEST_F(StoreTest, AJournalOfNonsenseIsNoChunks) {
  {
    const auto store = open();
    for (std::uint64_t key = 0; key < 8; ++key) put_whole(*store, key);
    ASSERT_TRUE(store->commit().ok());
  }
  const std::vector<std::byte> whole = volume.journal();
  for (std::size_t length = 0; length < whole.size(); length += 13) {
    volume.journal() = {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)};
    const auto store = open();
    EXPECT_EQ(store->state().chunks, length < kRecordBytes ? 0 : length / kRecordBytes - 1);
  }
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    volume.journal() = whole;
    for (int j = 0; j < 4; ++j) volume.journal()[random() % whole.size()] = static_cast<std::byte>(random());
    const auto store = open();
    for (std::uint64_t key = 0; key < 8; ++key) look(*store, key);
  }
}

TEST_F(StoreTest, WhenTheDriveFailsItIsSaidAndNothingIsThere) {
  const auto store = open();
  volume.faults.write = 1;
  EXPECT_EQ(put_whole(*store, 1), Outcome::failed);
  volume.faults.write = 0;
  EXPECT_EQ(look(*store, 1), Outcome::miss);
  EXPECT_EQ(put_whole(*store, 1), Outcome::done);
  volume.faults.sync = 1;
  EXPECT_FALSE(store->commit().ok());
  volume.faults.sync = 0;
  EXPECT_EQ(store->state().uncommitted, 1u);
  EXPECT_TRUE(store->commit().ok());
  EXPECT_EQ(store->state().uncommitted, 0u);
}

TEST_F(StoreTest, TheJournalIsWrittenAnewBeforeItIsLong) {
  const auto store = open();
  for (int i = 0; i < 40'000; ++i) {
    put_whole(*store, 1, 1);
    store->erase(name_of(1));
    if (i % 100 == 0) {
      ASSERT_TRUE(store->commit().ok());
    }
  }
  ASSERT_TRUE(store->commit().ok());
  EXPECT_LE(volume.journal().size(), journal_bytes_most(1) + 200 * kRecordBytes);
}

TEST_F(StoreTest, WhatIsCommittedAfterTheFlushOfANewJournalFailedIsThere) {
  auto store = open();
  volume.faults.folder = 1;
  bool has_failed = false;
  for (int i = 0; !has_failed; ++i) {
    ASSERT_LT(i, 40'000);
    put_whole(*store, 1, 1);
    store->erase(name_of(1));
    has_failed = i % 100 == 0 && !store->commit().ok();
  }
  EXPECT_FALSE(store->commit().ok()) << "the folder was not flushed since";
  put_whole(*store, 2);
  EXPECT_FALSE(store->commit().ok());
  volume.faults.folder = 0;
  EXPECT_TRUE(store->commit().ok());
  std::vector<std::byte> memory(kChunk);
  Follower follower(volume, name_of(0));
  ASSERT_TRUE(follower.refresh().ok());
  EXPECT_EQ(get(follower, 2, memory), Outcome::done);
}

// A hang here is the fault that this test looks for.
TEST_F(StoreTest, NobodyWaitsForAFollowerThatReadsTheJournal) {
  const auto store = open();
  put_whole(*store, 1);
  ASSERT_TRUE(store->commit().ok());
  Follower follower(volume, name_of(0));
  int reads = 0;
  volume.in_read_journal = [&] {
    EXPECT_FALSE(follower.contains(name_of(1)));
    ++reads;
  };
  ASSERT_TRUE(follower.refresh().ok());
  EXPECT_EQ(reads, 2) << "of its end, and of the whole";
  EXPECT_TRUE(follower.contains(name_of(1)));
}

TEST_F(StoreTest, AFollowerSeesWhatTheWriterCommittedAndNoMore) {
  const auto store = open();
  Follower follower(volume, name_of(0));
  std::vector<std::byte> memory(kChunk);
  put_whole(*store, 1);
  ASSERT_TRUE(follower.refresh().ok());
  EXPECT_EQ(get(follower, 1, memory), Outcome::miss);
  ASSERT_TRUE(store->commit().ok());
  ASSERT_TRUE(follower.refresh().ok());
  EXPECT_TRUE(follower.contains(name_of(1)));
  EXPECT_EQ(get(follower, 1, memory), Outcome::done);
  EXPECT_EQ(memory, content_of(1, 0, kChunk));
  // Its slot gets another chunk, which the follower has not read about yet.
  store->erase(name_of(1));
  put_whole(*store, 2);
  EXPECT_EQ(get(follower, 1, memory), Outcome::miss);
  EXPECT_FALSE(follower.contains(name_of(1)));
  // The writer closes, and the next one rewrites the journal.
  ASSERT_TRUE(store->close().ok());
  ASSERT_TRUE(follower.refresh().ok());
  EXPECT_EQ(get(follower, 2, memory), Outcome::done);
  EXPECT_EQ(follower.state().chunks, 1u);
}

// Found by the simulation: the follower forgot the newer chunk, until the journal was written anew.
TEST_F(StoreTest, AFollowerThatReadAnOverwrittenChunkLooksOnceMore) {
  const auto store = open();
  Follower follower(volume, name_of(0));
  for (const std::uint64_t key : {1, 3}) {
    put_whole(*store, key);
    ASSERT_TRUE(store->commit().ok());
    ASSERT_TRUE(follower.refresh().ok());
    volume.before_read = [&] {
      store->erase(name_of(key));
      put_whole(*store, key + 1);  // It gets the slot.
      put_whole(*store, key);
      ASSERT_TRUE(store->commit().ok());
      const bool knows_already = key == 1;
      ASSERT_TRUE(!knows_already || follower.refresh().ok());
    };
    std::vector<std::byte> memory(kChunk);
    EXPECT_EQ(get(follower, key, memory), Outcome::done);
    EXPECT_EQ(memory, content_of(key, 0, kChunk));
  }
  const Counts counts = follower.state().counts;
  EXPECT_EQ(counts.gets[static_cast<unsigned>(Outcome::done)], 2u);
  EXPECT_EQ(counts.gets[static_cast<unsigned>(Outcome::miss)], 0u);
}

TEST_F(StoreTest, AFollowerForgetsNoChunkForAReadThatEndedEarly) {
  const auto store = open();
  put_whole(*store, 1);
  ASSERT_TRUE(store->commit().ok());
  Follower follower(volume, name_of(0));
  ASSERT_TRUE(follower.refresh().ok());
  std::vector<std::byte> memory(kChunk);
  unsigned misses = 0;
  volume.faults.read = 1;  // With an error or without.
  for (int i = 0; i < 20; ++i) misses += get(follower, 1, memory) == Outcome::miss ? 1 : 0;
  EXPECT_GT(misses, 0u);
  EXPECT_TRUE(follower.contains(name_of(1)));
  volume.faults.read = 0;
  EXPECT_EQ(get(follower, 1, memory), Outcome::done);
}

TEST_F(StoreTest, SettingsThatMakeNoStoreAreRefused) {
  for (const StoreSettings& wrong : {StoreSettings{{}, 0}, StoreSettings{{}, kSlab, 4096},
                                     StoreSettings{{}, kSlab, 10'000}, StoreSettings{{}, kExtent - 1, kExtent}}) {
    EXPECT_FALSE(Store::open(volume, wrong).ok());
  }
}

// The tier in host memory has such a volume.
TEST(StoreInHostMemory, HostMemoryIsCopiedWithoutARequestAndChecked) {
  FakeVolume volume(kExtent, 1);
  volume.is_copied = true;
  volume.faults = {1, 1, 0, 0, 0};
  const auto store = std::move(Store::open(volume, {name_of(0), kExtent, kExtent}).value());
  std::vector<std::byte> content = content_of(1, 1, 10'000), memory(content.size());
  const iovec into[] = {{memory.data(), 1}, {memory.data() + 1, 0}, {memory.data() + 1, memory.size() - 1}};
  Request request{.key = name_of(1), .pieces = into, .is_host = true};
  EXPECT_EQ(put(*store, 1, content, 0, true), Outcome::done);
  store->get(each_of({&request, 1}));
  EXPECT_EQ(request.outcome, Outcome::done);
  EXPECT_EQ(memory, content);
  EXPECT_EQ(volume.done.summed_bytes + volume.done.read_bytes + volume.done.written_bytes, 0u);
  volume.slab()[kHeaderBytes + 5000] ^= std::byte{1};
  EXPECT_EQ(get(*store, 1, memory, true), Outcome::damaged);
  EXPECT_EQ(put(*store, 1, content, 0, true), Outcome::done);
  volume.slab()[30] ^= std::byte{1};  // In the header.
  EXPECT_EQ(get(*store, 1, memory, true), Outcome::damaged);
  EXPECT_FALSE(store->contains(name_of(1)));
}

}  // namespace
}  // namespace penstock::kv
