// SPDX-License-Identifier: Apache-2.0

// A store over a volume that fails, over journals that somebody forged, and while others work on it.
#include <gtest/gtest.h>

#include "kv/fake_volume.h"
#include "kv/follower.h"
#include "kv/journal.h"
#include "kv/store.h"
#include "kv/test_chunks.h"

namespace penstock::kv {
namespace {

constexpr std::uint64_t kExtent = 256 << 10, kSlab = 4 * kExtent, kSlot = 32 << 10;
constexpr std::size_t kChunk = 28 << 10;  // With its header it takes a slot.

class StoreFailures : public testing::Test {
 protected:
  core::Result<std::unique_ptr<Store>> try_open() { return Store::open(volume, {name_of(0), kSlab, kExtent}); }
  std::unique_ptr<Store> open() { return std::move(try_open().value()); }
  static Outcome put_whole(Store& store, std::uint64_t key) { return put(store, key, content_of(key, 0, kChunk)); }
  static Outcome look(Store& store, std::uint64_t key) { return get_first(store, key, kChunk); }
  void commit_chunks(std::uint64_t count) {
    const auto store = open();
    for (std::uint64_t key = 0; key < count; ++key) ASSERT_EQ(put_whole(*store, key), Outcome::done);
    ASSERT_TRUE(store->commit().ok());
  }
  // Leaves a journal that the next commit has to replace: a close that fails is none.
  void fail_to_flush_the_folder(Store& store) {
    volume.faults.folder = 1;
    EXPECT_FALSE(store.close().ok());
    volume.faults.folder = 0;
  }

  FakeVolume volume{kSlab, 1};
};

TEST_F(StoreFailures, AJournalThatCannotBeReadOrReplacedIsNoStore) {
  commit_chunks(3);
  volume.journal_error = EIO;
  EXPECT_TRUE(try_open().status().is_errno(EIO)) << "a store without its chunks would forget them";
  volume.journal_error = 0;
  volume.faults.journal = 1;
  EXPECT_TRUE(try_open().status().is_errno(ENOSPC));
  volume.faults.journal = 0;
  EXPECT_EQ(open()->state().chunks, 3u);
}

TEST_F(StoreFailures, ACloseThatCannotReplaceTheJournalSaysSoAndLosesNothing) {
  const auto store = open();
  put_whole(*store, 1);
  ASSERT_TRUE(store->commit().ok());
  volume.faults.journal = 1;
  EXPECT_TRUE(store->close().is_errno(ENOSPC));
  volume.faults.journal = 0;
  EXPECT_EQ(look(*open(), 1), Outcome::done);
}

// A drive that failed for a moment had cost the store all of its chunks, since their journal was written anew.
TEST_F(StoreFailures, ChunksWhoseHeadersCannotBeReadAtTheStartAreThereOnceTheyCanBe) {
  commit_chunks(20);
  for (const int error : {EIO, EINTR, EAGAIN}) {
    volume.read_error = error;
    const auto store = open();
    EXPECT_EQ(store->state().chunks, 20u);
    EXPECT_EQ(store->state().dropped_at_start, 0u);
    EXPECT_EQ(look(*store, 0), Outcome::failed) << "a get tells of the drive, and forgets nothing";
    volume.read_error = 0;
    for (std::uint64_t key = 0; key < 20; ++key) EXPECT_EQ(look(*store, key), Outcome::done) << key;
  }
}

TEST_F(StoreFailures, ChunksWhoseHeadersCouldNotBeReadAtTheStartAreStillCheckedByGets) {
  commit_chunks(20);
  std::fill(volume.slab().begin(), volume.slab().end(), std::byte{0});
  volume.read_error = EIO;
  const auto store = open();
  volume.read_error = 0;
  for (std::uint64_t key = 0; key < 20; ++key) EXPECT_EQ(look(*store, key), Outcome::damaged) << key;
  EXPECT_EQ(store->state().chunks, 0u);
}

TEST_F(StoreFailures, ChunksBehindTheEndOfACutSlabAreDropped) {
  commit_chunks(20);
  volume.faults.read = 1;  // With an error or fewer bytes, by the seed.
  const State state = open()->state();
  EXPECT_GT(state.dropped_at_start, 0u);
  EXPECT_LT(state.dropped_at_start, 20u);
  EXPECT_EQ(state.chunks + state.dropped_at_start, 20u);
}

TEST_F(StoreFailures, AFailureOfChecksumsFailsPutsAndGetsWithItsReason) {
  const auto store = open();
  put_whole(*store, 1);
  volume.makes_sums = false;
  std::vector<std::byte> memory = content_of(2, 0, kChunk);
  const iovec piece{memory.data(), memory.size()};
  Request both[] = {{.key = name_of(2), .pieces = {&piece, 1}}, {.key = name_of(1), .pieces = {&piece, 1}}};
  store->put(each_of({both, 1}));
  store->get(each_of({both + 1, 1}));
  for (const Request& one : both) {
    EXPECT_EQ(one.outcome, Outcome::failed);
    EXPECT_TRUE(one.status.is(core::Code::device_lost)) << core::describe(one.status);
  }
  volume.makes_sums = true;
  EXPECT_FALSE(store->contains(name_of(2)));
  EXPECT_EQ(look(*store, 1), Outcome::done) << "it is not damaged";
}

// Whoever can write the journal can write anything into it.
TEST_F(StoreFailures, OfClaimsOfAJournalThatCannotAllBeTrueTheNewestCount) {
  const auto put_at = [](std::uint64_t key, std::uint64_t offset, std::uint64_t slot, std::uint64_t bytes) {
    return Record{RecordKind::put, {name_of(key), offset, slot, bytes, key + 1}};
  };
  const std::vector<Record> records = {{RecordKind::store, {.key = name_of(0)}},
                                       put_at(1, 0, kSlot, kChunk),          // The next one is newer.
                                       put_at(2, 0, kSlot, kChunk),          // It has the same place.
                                       put_at(3, kSlot, kSlot, kSlot),       // It is larger than its slot.
                                       put_at(4, 2 * kSlot, 64, 10),         // Its slot has no room at all.
                                       put_at(5, kSlab, kSlot, kChunk),      // It lies behind the slab.
                                       put_at(6, 3 * kSlot, kSlot, kChunk),  // It is right.
                                       {RecordKind::closed, {.key = name_of(0)}}};
  volume.journal() = encode(records);
  const auto store = open();
  EXPECT_EQ(store->state().chunks, 2u);
  EXPECT_EQ(store->state().dropped_at_start, 4u);
  for (const std::uint64_t key : {2, 6}) EXPECT_TRUE(store->contains(name_of(key))) << key;
}

TEST_F(StoreFailures, AnErasedChunkKeepsItsSlotUntilItsLastUserLeaves) {
  const auto store = open();
  for (std::uint64_t key = 0; key < 32; ++key) ASSERT_EQ(put_whole(*store, key), Outcome::done);
  EXPECT_FALSE(store->map_chunk(name_of(77)).has_value());
  auto first = store->map_chunk(name_of(5)), second = store->map_chunk(name_of(5));
  ASSERT_TRUE(first && second);
  ASSERT_TRUE(store->erase(name_of(5)));
  EXPECT_EQ(store->state().used_bytes, kSlab);
  first.reset();
  EXPECT_EQ(store->state().used_bytes, kSlab);
  EXPECT_TRUE(std::equal(second->payload().begin(), second->payload().end(), content_of(5, 0, kChunk).begin()));
  second.reset();
  EXPECT_EQ(store->state().used_bytes, kSlab - kSlot);
}

TEST_F(StoreFailures, AChunkThatIsPutAnewWhileTheOldOneIsReadIsAnother) {
  const auto store = open();
  put_whole(*store, 1);
  volume.before_read = [&] {
    EXPECT_TRUE(store->erase(name_of(1)));
    EXPECT_EQ(put_whole(*store, 1), Outcome::done);
  };
  EXPECT_EQ(look(*store, 1), Outcome::done);
  EXPECT_EQ(store->state().used_bytes, kSlot) << "the first one's slot is free again";
  EXPECT_EQ(look(*store, 1), Outcome::done);
}

// The kernel tells once that it could not write bytes: the next flush succeeds without them.
TEST_F(StoreFailures, WhatAFlushDidNotReachIsPutAnewOrMissed) {
  const auto store = open();
  put_whole(*store, 1);
  ASSERT_TRUE(store->commit().ok());
  put_whole(*store, 2);
  put_whole(*store, 3);
  volume.faults.sync = 1;
  EXPECT_TRUE(store->commit().is_errno(EIO));
  volume.faults.sync = 0;

  EXPECT_EQ(look(*store, 2), Outcome::miss);
  EXPECT_EQ(put_whole(*store, 2), Outcome::done);
  ASSERT_TRUE(store->commit().ok());

  const auto reopened = open();
  EXPECT_EQ(look(*reopened, 1), Outcome::done) << "it was flushed before";
  EXPECT_EQ(look(*reopened, 2), Outcome::done);
  EXPECT_EQ(look(*reopened, 3), Outcome::miss);
}

TEST_F(StoreFailures, APutThatAFailedFlushMayHaveLostFails) {
  const auto store = open();
  volume.before_write = [&] {
    put_whole(*store, 1);
    volume.faults.sync = 1;
    EXPECT_TRUE(store->commit().is_errno(EIO));
    volume.faults.sync = 0;
  };
  EXPECT_EQ(put_whole(*store, 2), Outcome::failed);
  EXPECT_EQ(put_whole(*store, 2), Outcome::done);
}

// A commit takes the records that there are, and others come while it flushes.
TEST_F(StoreFailures, AJournalThatIsReplacedHasWhatWasCommittedAndTheNextCommitHasTheRest) {
  const auto store = open();
  put_whole(*store, 1);
  put_whole(*store, 2);
  fail_to_flush_the_folder(*store);
  put_whole(*store, 3);
  volume.before_sync = [&] {
    EXPECT_TRUE(store->erase(name_of(2)));
    EXPECT_EQ(put_whole(*store, 4), Outcome::done);
  };
  ASSERT_TRUE(store->commit().ok());
  EXPECT_EQ(store->state().uncommitted, 2u);
  Replay replay(name_of(0));
  replay.add(volume.journal());
  EXPECT_NE(replay.find(name_of(3)), nullptr);
  EXPECT_EQ(replay.find(name_of(4)), nullptr) << "nobody flushed it";
  ASSERT_TRUE(store->commit().ok());
  EXPECT_EQ(look(*open(), 4), Outcome::done);
  EXPECT_EQ(look(*open(), 2), Outcome::miss);
}

TEST_F(StoreFailures, AChunkThatIsBeingPutIsNotInTheJournal) {
  const auto store = open();
  put_whole(*store, 1);
  fail_to_flush_the_folder(*store);
  volume.before_write = [&] { EXPECT_TRUE(store->commit().ok()); };
  EXPECT_EQ(put_whole(*store, 2), Outcome::done);
  Replay replay(name_of(0));
  replay.add(volume.journal());
  EXPECT_NE(replay.find(name_of(1)), nullptr);
  EXPECT_EQ(replay.find(name_of(2)), nullptr);
}

TEST_F(StoreFailures, AFollowerThatCannotReadTheJournalKeepsWhatItKnows) {
  const auto store = open();
  put_whole(*store, 1);
  ASSERT_TRUE(store->commit().ok());
  Follower follower(volume, name_of(0));
  volume.journal_error = EIO;
  EXPECT_TRUE(follower.refresh().is_errno(EIO));
  volume.journal_error = 0;
  unsigned reads = 0;
  volume.in_read_journal = [&] { volume.journal_error = ++reads == 2 ? EIO : 0; };  // Its end, but not the whole.
  EXPECT_TRUE(follower.refresh().is_errno(EIO));
  EXPECT_FALSE(follower.contains(name_of(1)));
  volume.in_read_journal = nullptr;
  volume.journal_error = 0;
  ASSERT_TRUE(follower.refresh().ok());
  ASSERT_TRUE(follower.contains(name_of(1)));
  // Its slot gets another chunk, and the journal cannot tell of it.
  store->erase(name_of(1));
  put_whole(*store, 2);
  volume.journal_error = EIO;
  std::vector<std::byte> memory(kChunk);
  EXPECT_EQ(get(follower, 1, memory), Outcome::miss);
  EXPECT_EQ(follower.state().counts.gets[static_cast<unsigned>(Outcome::miss)], 1u);
}

}  // namespace
}  // namespace penstock::kv
