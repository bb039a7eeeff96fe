// SPDX-License-Identifier: Apache-2.0

// A store of two tiers while something else happens to its chunks: in the hooks of its volumes, as another thread would
// do it, and behind its back.
#include <gtest/gtest.h>

#include <functional>
#include <new>

#include "fakes/waiting.h"
#include "kv/fake_volume.h"
#include "kv/test_chunks.h"
#include "kv/tiered_store.h"

namespace penstock::kv {
namespace {

constexpr std::uint64_t kExtent = 256 << 10, kMemory = 16 * kExtent, kSlab = 32 * kExtent;
constexpr std::size_t kChunk = 28 << 10;  // Slots of 32 KiB.
constexpr std::size_t kBatch = 64;        // The most chunks that are written together.

class TieredMoments : public testing::Test {
 protected:
  TieredMoments()
      : memory_store(std::move(Store::open(memory, {name_of(0), kMemory, kExtent}).value())),
        drive_store(std::move(Store::open(drive, {name_of(0), kSlab, kExtent}).value())),
        tier(std::make_unique<TieredStore>(*memory_store, *drive_store, TieredStore::Writing::by_caller)) {}

  template <typename Store>
  static Outcome put_into(Store& store, std::uint64_t key) {
    return put(store, key, content_of(key, 0, kChunk));
  }
  Outcome put_whole(std::uint64_t key) { return put_into(*tier, key); }
  Outcome look(std::uint64_t key) { return get_first(*tier, key, kChunk); }
  std::uint64_t not_written(Outcome outcome) const { return tier->state().not_written[static_cast<unsigned>(outcome)]; }
  // A chunk that memory has and the drive has not, and that nothing holds.
  void keep_in_memory_alone(std::uint64_t key) {
    ASSERT_EQ(put_whole(key), Outcome::done);
    tier->flush();
    ASSERT_TRUE(drive_store->erase(name_of(key)));
  }
  void refuse_writes(bool refused) { drive.faults.write = refused ? 1 : 0; }

  FakeVolume memory{kMemory, 1}, drive{kSlab, 2};
  std::unique_ptr<Store> memory_store, drive_store;
  std::unique_ptr<TieredStore> tier;
};

TEST_F(TieredMoments, MoreChunksThanABatchHasAreWrittenInSeveral) {
  for (std::uint64_t key = 0; key < kBatch + 10; ++key) ASSERT_EQ(put_whole(key), Outcome::done);
  EXPECT_TRUE(tier->write_some());
  EXPECT_EQ(tier->state().written, kBatch);
  EXPECT_EQ(tier->state().waiting, 10u);
  EXPECT_TRUE(tier->write_some());
  EXPECT_EQ(tier->state().waiting, 0u);
  EXPECT_FALSE(tier->write_some());
}

// A put behind a pause wakes the thread, which sleeps then; one during it finds it looking.
TEST_F(TieredMoments, APutBehindAPauseIsBroughtToTheDriveToo) {
  tier = std::make_unique<TieredStore>(*memory_store, *drive_store);
  for (std::uint64_t key = 0; key < 3; ++key) {
    give_time_to_go_wrong(std::chrono::milliseconds(150));
    ASSERT_EQ(put_whole(key), Outcome::done);
    ASSERT_TRUE(wait_until([&] { return drive_store->contains(name_of(key)); }));
  }
}

TEST_F(TieredMoments, AShortageOfMemoryOnTheWayToTheDriveIsToldAndLosesNoChunk) {
  put_whole(1);
  put_whole(2);
  drive.before_write = [] { throw std::bad_alloc(); };
  tier->flush();
  EXPECT_EQ(not_written(Outcome::failed), 2u);
  EXPECT_TRUE(tier->state().failure.is(core::Code::out_of_memory)) << core::describe(tier->state().failure);
  EXPECT_EQ(tier->state().waiting, 0u);
  for (const std::uint64_t key : {1, 2}) EXPECT_EQ(look(key), Outcome::done) << "memory has it";
}

TEST_F(TieredMoments, AChunkThatIsGoneFromMemoryBeforeItIsWrittenIsNotWritten) {
  put_whole(1);
  put_whole(2);
  ASSERT_TRUE(tier->pin(name_of(2)));
  for (const std::uint64_t key : {1, 2}) ASSERT_TRUE(memory_store->erase(name_of(key)));  // Damage does so, too.
  tier->flush();
  EXPECT_EQ(tier->state().written, 0u);
  EXPECT_EQ(tier->state().waiting, 0u);
  EXPECT_EQ(look(1), Outcome::miss);
  EXPECT_FALSE(tier->unpin(name_of(2))) << "the chunk is gone, and its pin with it";
}

TEST_F(TieredMoments, WhatTheDriveHasAlreadyIsNotWrittenTwice) {
  put_whole(1);
  ASSERT_EQ(put_into(*drive_store, 1), Outcome::done);
  tier->flush();
  EXPECT_EQ(tier->state().written, 0u);
  EXPECT_EQ(not_written(Outcome::present), 0u) << "it is there, so that nothing is missing";
  EXPECT_EQ(tier->state().waiting, 0u);
}

// The keys stay in the queue: a key is in it as often as the chunk was put.
TEST_F(TieredMoments, AChunkThatIsErasedAndPutAgainIsWrittenOnce) {
  put_whole(1);
  ASSERT_TRUE(tier->erase(name_of(1)));
  put_whole(1);
  tier->flush();
  EXPECT_EQ(tier->state().written, 1u);
  EXPECT_TRUE(drive_store->contains(name_of(1)));

  refuse_writes(true);  // In two batches, the second of which has the key alone.
  put_whole(2);
  ASSERT_TRUE(tier->erase(name_of(2)));
  for (std::uint64_t key = 100; key < 100 + kBatch; ++key) put_whole(key);
  put_whole(2);
  ASSERT_TRUE(tier->pin(name_of(2)));
  tier->flush();
  EXPECT_EQ(not_written(Outcome::failed), kBatch + 1);
  EXPECT_EQ(tier->state().waiting, 0u);
  EXPECT_EQ(look(2), Outcome::done) << "its pin keeps it in memory";
}

TEST_F(TieredMoments, AChunkIsHeldInMemoryForItsPinsAndForItsWriting) {
  put_whole(1);
  ASSERT_TRUE(tier->pin(name_of(1)));
  EXPECT_TRUE(tier->unpin(name_of(1)));  // It still waits for the drive.
  EXPECT_EQ(tier->state().waiting, 1u);
  ASSERT_TRUE(tier->pin(name_of(1)));
  ASSERT_TRUE(tier->pin(name_of(1)));
  refuse_writes(true);
  tier->flush();
  EXPECT_TRUE(tier->unpin(name_of(1)));
  EXPECT_TRUE(tier->unpin(name_of(1)));
  EXPECT_FALSE(tier->unpin(name_of(1)));
  EXPECT_FALSE(memory_store->unpin(name_of(1))) << "a pin of the tier's was left behind";
}

TEST_F(TieredMoments, AChunkThatIsPinnedInMemoryAloneCanBeErased) {
  refuse_writes(true);
  put_whole(1);
  ASSERT_TRUE(tier->pin(name_of(1)));
  tier->flush();
  EXPECT_TRUE(tier->erase(name_of(1)));
  EXPECT_FALSE(tier->unpin(name_of(1)));
  EXPECT_EQ(memory_store->state().used_bytes, 0u);
  EXPECT_EQ(tier->state().waiting, 0u);
}

TEST_F(TieredMoments, AUseOfAChunkCountsWhereverItIs) {
  keep_in_memory_alone(1);
  EXPECT_TRUE(tier->touch(name_of(1)));
  ASSERT_TRUE(memory_store->erase(name_of(1)));
  EXPECT_FALSE(tier->touch(name_of(1)));
}

TEST_F(TieredMoments, NothingIsPredictedOfMemoryThatNothingWasGotFrom) {
  put_whole(1);
  ASSERT_EQ(put_into(*drive_store, 2), Outcome::done);
  ASSERT_EQ(look(2), Outcome::done);
  ASSERT_TRUE(memory_store->erase(name_of(2)));
  const Name both[] = {name_of(1), name_of(2)};
  EXPECT_EQ(tier->seconds_to_get(both), std::nullopt);
  EXPECT_TRUE(tier->seconds_to_get({both + 1, 1}).has_value()) << "of the drive it is known";
}

// While the first key's put goes on, another puts, pins or drops the second, which was in memory alone.
TEST_F(TieredMoments, APutOfAChunkThatMemoryHasFindsWhatOthersDidMeanwhile) {
  struct Row {
    const char* name;
    std::function<void()> meanwhile;
    bool is_in_memory, is_waiting;
  };
  const Row rows[] = {{"nothing", [] {}, true, true},
                      {"the drive got it", [&] { put_into(*drive_store, 2); }, true, false},
                      {"memory lost it", [&] { memory_store->erase(name_of(2)); }, false, false},
                      {"it was put again", [&] { put_whole(2); }, true, true},
                      {"it was pinned", [&] { tier->pin(name_of(2)); }, true, true}};
  for (const Row& row : rows) {
    keep_in_memory_alone(2);
    std::vector<std::byte> bytes[] = {content_of(1, 0, kChunk), content_of(2, 0, kChunk)};
    const iovec pieces[] = {{bytes[0].data(), kChunk}, {bytes[1].data(), kChunk}};
    Request both[] = {{.key = name_of(1), .pieces = {&pieces[0], 1}}, {.key = name_of(2), .pieces = {&pieces[1], 1}}};
    memory.before_write = row.meanwhile;

    tier->put(each_of(both));

    EXPECT_EQ(both[0].outcome, Outcome::done) << row.name;
    EXPECT_EQ(both[1].outcome, Outcome::present) << row.name;
    EXPECT_EQ(memory_store->contains(name_of(2)), row.is_in_memory) << row.name;
    EXPECT_EQ(tier->state().waiting, row.is_waiting ? 2u : 1u) << row.name;
    tier->flush();
    EXPECT_EQ(drive_store->contains(name_of(2)), row.is_in_memory) << row.name;
    for (const std::uint64_t key : {1, 2}) tier->erase(name_of(key));
    EXPECT_EQ(memory_store->state().used_bytes, 0u) << row.name;
  }
}

TEST_F(TieredMoments, DamageInMemoryThatIsFoundDuringItsWritingLeavesTheChunkToTheDrive) {
  put_whole(1);
  drive.before_write = [&] {
    memory.faults.rot = 1;
    EXPECT_EQ(look(1), Outcome::damaged) << "the drive has it a moment later";
    memory.faults.rot = 0;
  };
  tier->flush();
  EXPECT_TRUE(drive_store->contains(name_of(1)));
  EXPECT_EQ(tier->state().waiting, 0u);
  EXPECT_EQ(look(1), Outcome::done);
}

TEST_F(TieredMoments, AGetDuringAnothersReadOfTheChunkPromotesItOnce) {
  ASSERT_EQ(put_into(*drive_store, 1), Outcome::done);
  memory.done = {};
  drive.before_read = [&] { EXPECT_EQ(look(1), Outcome::done); };
  EXPECT_EQ(look(1), Outcome::done);
  EXPECT_EQ(memory.done.written_bytes, kHeaderBytes + kChunk);
  EXPECT_TRUE(memory_store->contains(name_of(1)));
}

}  // namespace
}  // namespace penstock::kv
