// SPDX-License-Identifier: Apache-2.0

#include "kv/tiered_store.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <thread>

#include "kv/fake_volume.h"
#include "kv/test_chunks.h"

namespace penstock::kv {
namespace {

constexpr std::uint64_t kExtent = 256 << 10;
constexpr std::uint64_t kMemory = 2 * kExtent, kSlab = 4 * kExtent;
constexpr std::size_t kChunk = 28 << 10;  // Slots of 32 KiB: 16 fit into memory, and 32 on the drive.

class TieredStoreTest : public testing::Test {
 protected:
  TieredStoreTest() { open(); }

  // Opens the stores as a new process does: memory is empty, and the drive has its chunks.
  void open() {
    tier.reset();
    memory_store = std::move(Store::open(memory = FakeVolume(kMemory, 1), {name_of(0), kMemory, kExtent}).value());
    drive_store = std::move(Store::open(drive, {name_of(0), kSlab, kExtent}).value());
    tier = std::make_unique<TieredStore>(*memory_store, *drive_store, TieredStore::Writing::by_caller);
  }
  Outcome put_whole(std::uint64_t key) { return put(*tier, key, content_of(key, 0, kChunk)); }
  void put_and_flush(std::uint64_t key) {
    put_whole(key);
    tier->flush();
  }
  Outcome look(std::uint64_t key) { return get_first(*tier, key, kChunk); }

  FakeVolume memory{kMemory, 1}, drive{kSlab, 2};
  std::unique_ptr<Store> memory_store, drive_store;
  std::unique_ptr<TieredStore> tier;
};

TEST_F(TieredStoreTest, APutIsInMemoryAtOnceAndOnTheDriveLater) {
  drive.faults = {1, 1, 1, 1};
  EXPECT_EQ(put_whole(1), Outcome::done);
  EXPECT_EQ(put_whole(1), Outcome::present);
  EXPECT_EQ(look(1), Outcome::done);
  EXPECT_TRUE(tier->contains(name_of(1)));
  EXPECT_FALSE(drive_store->contains(name_of(1)));
  drive.faults = {};
  EXPECT_TRUE(tier->write_some());
  EXPECT_FALSE(tier->write_some());
  EXPECT_TRUE(drive_store->contains(name_of(1)));
  EXPECT_EQ(tier->state().written, 1u);
  EXPECT_EQ(tier->state().written_bytes, kChunk);
  open();
  EXPECT_EQ(look(1), Outcome::miss) << "nobody committed it";
}

TEST_F(TieredStoreTest, WhatIsPutIsBroughtToTheDriveWithoutBeingAskedFor) {
  tier = std::make_unique<TieredStore>(*memory_store, *drive_store);
  for (std::uint64_t key = 0; key < 4; ++key) {
    EXPECT_EQ(put_whole(key), Outcome::done);
    while (tier->state().waiting > 0) std::this_thread::yield();
    EXPECT_TRUE(drive_store->contains(name_of(key))) << key;
  }
  EXPECT_EQ(tier->state().written, 4u);
}

TEST_F(TieredStoreTest, WhatWaitsForTheDriveDoesNotMakeRoom) {
  for (std::uint64_t key = 0; key < 16; ++key) EXPECT_EQ(put_whole(key), Outcome::done);
  EXPECT_EQ(put_whole(16), Outcome::full);
  EXPECT_EQ(tier->state().waiting, 16u);
  tier->flush();
  EXPECT_EQ(tier->state().waiting, 0u);
  for (std::uint64_t key = 16; key < 32; ++key) EXPECT_EQ(put_whole(key), Outcome::done);
  for (std::uint64_t key = 0; key < 32; ++key) EXPECT_EQ(look(key), Outcome::done) << key;
  EXPECT_LE(memory_store->state().used_bytes, kMemory);
}

TEST_F(TieredStoreTest, WhatIsCommittedSurvivesALossOfPower) {
  for (std::uint64_t key = 0; key < 8; ++key) put_whole(key);
  ASSERT_TRUE(tier->commit().ok());
  for (std::uint64_t key = 8; key < 16; ++key) put_whole(key);
  drive.lose_power();
  open();
  for (std::uint64_t key = 0; key < 16; ++key) EXPECT_EQ(look(key), key < 8 ? Outcome::done : Outcome::miss) << key;
}

TEST_F(TieredStoreTest, AChunkOfTheDriveIsInMemoryWhenItWasGot) {
  put_whole(1);
  ASSERT_TRUE(tier->commit().ok());
  open();
  EXPECT_EQ(look(1), Outcome::done);
  drive.faults.read = 1;
  EXPECT_EQ(look(1), Outcome::done);
  EXPECT_EQ(tier->state().got_from_drive, 1u);
  EXPECT_EQ(tier->state().got_from_memory, 1u);
}

// The chunk that arrived first has been overwritten when both are brought into memory.
TEST_F(TieredStoreTest, ChunksThatWereGotIntoOneBufferAreNotMixedUpInMemory) {
  for (std::uint64_t key = 0; key < 16; ++key) put_whole(key);
  ASSERT_TRUE(tier->commit().ok());
  open();
  std::vector<std::byte> bytes(kChunk);
  const iovec piece{bytes.data(), bytes.size()};
  for (std::uint64_t key = 0; key < 16; key += 2) {
    Request both[] = {{.key = name_of(key), .pieces = {&piece, 1}, .is_host = true},
                      {.key = name_of(key + 1), .pieces = {&piece, 1}, .is_host = true}};
    tier->get(each_of(both));
  }
  EXPECT_GT(tier->state().got_from_drive, 8u) << "in no pair one arrived whole before the other";
  for (std::uint64_t key = 0; key < 16; ++key) look(key);
}

TEST_F(TieredStoreTest, AChunksSizeAndTheTimeOfAGetAreToldOfWhereItIs) {
  for (const std::uint64_t key : {1, 2}) put_and_flush(key);
  ASSERT_TRUE(tier->commit().ok());
  open();
  const Name both[] = {name_of(1), name_of(2)};
  EXPECT_EQ(tier->seconds_to_get(both), std::nullopt) << "nothing was got from the drive yet";
  ASSERT_EQ(look(1), Outcome::done);  // From the drive, and into memory.
  ASSERT_EQ(look(1), Outcome::done);  // From memory.

  EXPECT_TRUE(memory_store->contains(name_of(1)));
  EXPECT_FALSE(memory_store->contains(name_of(2)));
  const std::optional<double> in_memory = tier->seconds_to_get({both, 1}), of_both = tier->seconds_to_get(both);
  ASSERT_TRUE(in_memory && of_both);
  EXPECT_GE(*in_memory, 0);
  EXPECT_GE(*of_both, *in_memory);
  EXPECT_EQ(tier->seconds_to_get({}), 0);
  for (const Name& name : both) EXPECT_EQ(tier->size_of(name), kChunk);
  EXPECT_EQ(tier->size_of(name_of(3)), 0u);
  EXPECT_TRUE(tier->touch(name_of(2)));
  EXPECT_FALSE(tier->touch(name_of(3)));
}

TEST_F(TieredStoreTest, PinsGoWithTheChunkToTheDrive) {
  put_whole(1);
  EXPECT_TRUE(tier->pin(name_of(1)));
  EXPECT_TRUE(tier->pin(name_of(1)));
  tier->flush();
  for (std::uint64_t key = 10; key < 80; ++key) put_and_flush(key);
  EXPECT_FALSE(memory_store->contains(name_of(1)));
  EXPECT_EQ(look(1), Outcome::done);
  EXPECT_TRUE(tier->unpin(name_of(1)));
  EXPECT_TRUE(tier->unpin(name_of(1)));
  EXPECT_FALSE(tier->unpin(name_of(1)));
  for (std::uint64_t key = 100; key < 180; ++key) put_and_flush(key);
  EXPECT_EQ(look(1), Outcome::miss);
}

TEST_F(TieredStoreTest, APinnedChunkThatTheDriveCannotTakeStaysInMemory) {
  drive.faults.write = 1;
  put_whole(1);
  put_whole(2);
  EXPECT_TRUE(tier->pin(name_of(1)));
  tier->flush();
  EXPECT_EQ(tier->state().not_written[static_cast<unsigned>(Outcome::failed)], 2u);
  EXPECT_FALSE(tier->state().failure.ok());
  for (std::uint64_t key = 10; key < 40; ++key) put_and_flush(key);
  EXPECT_EQ(look(1), Outcome::done);
  EXPECT_EQ(look(2), Outcome::miss);
  drive.faults.write = 0;
  EXPECT_EQ(put_whole(1), Outcome::present);
  tier->flush();
  EXPECT_TRUE(drive_store->contains(name_of(1))) << "who puts it again has it written";
  EXPECT_TRUE(tier->unpin(name_of(1)));
  EXPECT_FALSE(tier->unpin(name_of(1)));
}

TEST_F(TieredStoreTest, AnErasedChunkIsNowhere) {
  put_whole(1);
  put_whole(2);
  tier->pin(name_of(2));
  tier->write_some();
  put_whole(3);
  for (std::uint64_t key = 1; key <= 3; ++key) EXPECT_TRUE(tier->erase(name_of(key)));
  tier->flush();
  for (std::uint64_t key = 1; key <= 3; ++key) EXPECT_EQ(look(key), Outcome::miss) << key;
  EXPECT_FALSE(tier->erase(name_of(1)));
  EXPECT_EQ(tier->state().waiting, 0u);
  EXPECT_EQ(memory_store->state().used_bytes + drive_store->state().used_bytes, 0u);
  EXPECT_EQ(put_whole(3), Outcome::done);
  tier->flush();
  EXPECT_TRUE(drive_store->contains(name_of(3)));
}

// The chunk is erased while a get reads it from the drive, to promote it into memory.
TEST_F(TieredStoreTest, AnErasedChunkDoesNotComeBackFromAReadThatBeganBefore) {
  put_whole(1);
  ASSERT_TRUE(tier->commit().ok());
  open();
  std::thread other;
  drive.before_read = [&] {
    other = std::thread([&] { EXPECT_TRUE(tier->erase(name_of(1))); });
    while (drive_store->contains(name_of(1))) std::this_thread::yield();
  };
  look(1);
  other.join();
  EXPECT_EQ(look(1), Outcome::miss);
}

TEST_F(TieredStoreTest, WhatIsDamagedInMemoryDoesNotReachTheDrive) {
  put_whole(1);
  put_whole(2);
  memory.slab()[kHeaderBytes + 100] ^= std::byte{1};  // The first slot in use.
  tier->flush();
  EXPECT_EQ(tier->state().not_written[static_cast<unsigned>(Outcome::damaged)], 1u);
  EXPECT_EQ(look(1), Outcome::miss);
  EXPECT_EQ(look(2), Outcome::done);
  EXPECT_EQ(put_whole(1), Outcome::done);
  tier->flush();
  EXPECT_EQ(look(1), Outcome::done);
}

// The caller's memory is copied once, into host memory; from there the drive writes it. The volume computes a checksum
// of what may be device memory; the one of host memory needs no volume.
TEST_F(TieredStoreTest, AChunkIsCopiedOnceOnItsWayToTheDrive) {
  memory.done = {}, drive.done = {};
  put_whole(1);
  tier->flush();
  EXPECT_EQ(memory.done.written_bytes, kHeaderBytes + kChunk);
  EXPECT_EQ(memory.done.read_bytes, 0u) << "a copy between memory and the drive";
  EXPECT_EQ(drive.done.written_bytes, kHeaderBytes + kChunk);
  EXPECT_EQ(memory.done.summed_bytes, kChunk);
  EXPECT_EQ(drive.done.summed_bytes, 0u);
  memory.done = {};
  look(1);
  EXPECT_EQ(memory.done.read_bytes, kHeaderBytes + kChunk);
  EXPECT_EQ(memory.done.summed_bytes, kChunk);
}

// The drive's write still reads the erased chunk's bytes, so no other chunk may get its slot in memory.
TEST_F(TieredStoreTest, AChunkThatIsErasedWhileItIsWrittenKeepsItsPlaceUntilThen) {
  put_whole(1);
  std::thread other;
  drive.before_write = [&] {
    other = std::thread([&] { tier->erase(name_of(1)); });
    while (memory_store->contains(name_of(1))) std::this_thread::yield();
    for (std::uint64_t key = 10; key < 25; ++key) EXPECT_EQ(put_whole(key), Outcome::done) << key;
    EXPECT_EQ(put_whole(26), Outcome::full) << "of 16 slots one is still in use";
  };
  tier->write_some();
  other.join();
  const State written = drive_store->state();
  EXPECT_EQ(written.counts.puts[static_cast<unsigned>(Outcome::done)], 1u) << "its own bytes, with its checksum";
  EXPECT_EQ(look(1), Outcome::miss);
  EXPECT_EQ(put_whole(26), Outcome::done);
}

TEST_F(TieredStoreTest, WhatIsDamagedInMemoryComesFromTheDrive) {
  put_whole(1);
  tier->flush();
  memory.slab()[kHeaderBytes + 100] ^= std::byte{1};
  EXPECT_EQ(look(1), Outcome::done);
  EXPECT_EQ(tier->state().got_from_drive, 1u);
  put_whole(2);
  tier->pin(name_of(2));
  memory.faults.rot = 1;
  EXPECT_EQ(look(2), Outcome::damaged);
  EXPECT_FALSE(tier->unpin(name_of(2))) << "the chunk is gone, and its pin with it";
  tier->flush();
  EXPECT_EQ(look(2), Outcome::miss);
}

TEST_F(TieredStoreTest, ChunksOfNoBytesAndLargerThanABatchAreWritten) {
  tier.reset();
  constexpr std::uint64_t kLarge = 18 << 20;
  FakeVolume large_memory(4 * kLarge, 3), large_drive(4 * kLarge, 4);
  const StoreSettings settings{name_of(0), 4 * kLarge, kLarge};
  const auto memories = std::move(Store::open(large_memory, settings).value());
  const auto drives = std::move(Store::open(large_drive, settings).value());
  TieredStore large(*memories, *drives, TieredStore::Writing::by_caller);
  const std::vector<std::size_t> sizes = {0, 1, 17 << 20, 5};
  for (std::size_t key = 0; key < sizes.size(); ++key) {
    EXPECT_EQ(put(large, key, content_of(key, 0, sizes[key])), Outcome::done);
  }
  large.flush();
  for (std::size_t key = 0; key < sizes.size(); ++key) {
    std::vector<std::byte> bytes(sizes[key]);
    EXPECT_EQ(get(*drives, key, bytes), Outcome::done) << sizes[key];
    EXPECT_TRUE(bytes == content_of(key, 0, sizes[key]));
  }
}

// ---- Against a map, while both fail

class TierSimulation : public testing::TestWithParam<std::uint64_t> {
 protected:
  static constexpr std::uint64_t kKeys = 90;

  struct Known {
    std::uint64_t version = 0;            // The version that was put last; 0 if unknown or erased.
    std::set<std::uint64_t> after_crash;  // Versions that may be there after a crash.
    int pins = 0;
  };

  static std::size_t bytes_of_key(std::uint64_t key) { return key % 5 == 0 ? 50'000 + key : 12'000 + 13 * key; }

  void open() {
    tier_.reset();
    memory_ = FakeVolume(kMemory, random_());
    memory_.is_copied = random_() % 2 == 0;
    drive_.faults = {};
    memory_store_ = std::move(Store::open(memory_, {name_of(0), kMemory, kExtent}).value());
    drive_store_ = std::move(Store::open(drive_, {name_of(0), kSlab, kExtent, Eviction::cost}).value());
    tier_ = std::make_unique<TieredStore>(*memory_store_, *drive_store_, TieredStore::Writing::by_caller);
    for (auto& [key, known] : known_) known.version = 0, known.pins = 0;
  }
  void step() {
    const std::uint64_t key = random_() % kKeys;
    Known& known = known_[key];
    switch (random_() % 40) {
      case 0: return commit();
      case 1:
        tier_->erase(name_of(key));
        EXPECT_FALSE(tier_->contains(name_of(key)));
        known.pins = 0;
        return;
      case 2: known.pins += tier_->pin(name_of(key)) ? 1 : 0; return;
      case 3:
        EXPECT_EQ(tier_->unpin(name_of(key)), known.pins > 0);
        known.pins -= known.pins > 0 ? 1 : 0;
        return;
      case 4:
        if (random_() % 20 == 0) drive_.lose_power(), open();
        return;
      case 5:
        drive_.faults = {};
        if (random_() % 2 == 0) drive_.faults = {0.02, 0.02, 0.1, 0.1, 0.005};
        return;
      default:
        if (random_() % 4 == 0) tier_->write_some();
        return random_() % 2 == 0 ? look(key, known) : add(key, known);
    }
  }
  void commit() {
    const bool is_committed = tier_->commit().ok();
    for (auto& [key, known] : known_) {
      if (is_committed && known.version != 0) known.after_crash = {known.version};
      if (!is_committed) forget_pins(key, known);
    }
  }
  // A copy of the chunk that was dropped, since it is damaged or its flush failed, may have taken its pins along.
  void forget_pins(std::uint64_t key, Known& known) {
    known.pins = 0;
    while (tier_->unpin(name_of(key))) {
    }
  }
  void add(std::uint64_t key, Known& known) {
    const bool was_there = tier_->contains(name_of(key));
    const std::uint64_t version = ++last_version_;
    const Outcome outcome =
        put(*tier_, key, content_of(key, version, bytes_of_key(key)), static_cast<float>(key % 9), random_() % 2 == 0);
    EXPECT_EQ(outcome == Outcome::present, was_there);
    EXPECT_LE(memory_store_->state().used_bytes, kMemory);
    EXPECT_LE(drive_store_->state().used_bytes, kSlab);
    if (outcome != Outcome::done) return;
    known.version = version;
    known.after_crash.insert(version);
  }
  void look(std::uint64_t key, Known& known) {
    const bool was_there = tier_->contains(name_of(key));
    if (known.pins > 0) {
      EXPECT_TRUE(was_there) << "a pin was lost";
    }
    std::vector<std::byte> bytes(bytes_of_key(key));
    const std::uint64_t damaged_before = damaged();
    // Only on gets: the test would not see it on the way to the drive.
    memory_.faults.rot = random_() % 100 == 0 ? 1 : 0;
    const Outcome outcome = get(*tier_, key, bytes, random_() % 2 == 0);
    memory_.faults.rot = 0;
    if (damaged() > damaged_before) forget_pins(key, known);
    if (outcome != Outcome::done) {
      EXPECT_TRUE(!was_there || outcome == Outcome::failed || outcome == Outcome::damaged);
      return;
    }
    ++hits_;
    for (const std::uint64_t version : known.version != 0 ? std::set{known.version} : known.after_crash) {
      if (bytes == content_of(key, version, bytes.size())) return void(known.version = version);
    }
    ADD_FAILURE() << "bytes that nobody put, of key " << key;
  }
  std::uint64_t damaged() const {
    const auto number = static_cast<unsigned>(Outcome::damaged);
    return memory_store_->state().counts.gets[number] + drive_store_->state().counts.gets[number];
  }

  std::mt19937_64 random_{GetParam()};
  FakeVolume memory_{kMemory, 1}, drive_{kSlab, GetParam()};
  std::unique_ptr<Store> memory_store_, drive_store_;
  std::unique_ptr<TieredStore> tier_;
  std::map<std::uint64_t, Known> known_;
  std::uint64_t last_version_ = 0, hits_ = 0;
};

// PENSTOCK_SIMULATED sets the number of operations, for longer runs.
TEST_P(TierSimulation, NoWrongChunkAndNothingBeyondTheCapacity) {
  const char* asked = std::getenv("PENSTOCK_SIMULATED");
  const int operations = asked == nullptr ? 20'000 : std::atoi(asked);
  open();
  for (int i = 0; i < operations && !HasFailure(); ++i) step();
  EXPECT_GT(hits_, 1000u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, TierSimulation, testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace penstock::kv
