// SPDX-License-Identifier: Apache-2.0

// A device's queue of copies that counts them, reaches the markers that it is told to, and fails on demand.
#include "path/pipeline/staged_copies.h"

#include <gtest/gtest.h>

#include <set>

namespace penstock::core {
namespace {

constexpr unsigned kSlots = 8;
constexpr std::uint64_t kSmall = 4096;
constexpr std::uint64_t kLarge = (64u << 10) + 1;

Status lost() { return failure(Code::device_lost, "test"); }

class CountingQueue final : public CopyQueue {
 public:
  struct Script {
    std::vector<std::size_t> calls;  // The number of copies of each.
    std::vector<unsigned> markers;
    std::set<unsigned> reached;
    unsigned waits = 0;
    bool refuses = false, loses = false;
  };
  explicit CountingQueue(Script& script) : script_(script) {}

  Status copy_many(std::span<const Copy> copies, Direction) override {
    script_.calls.push_back(copies.size());
    return script_.refuses ? lost() : success();
  }
  Status record(unsigned marker) override {
    script_.markers.push_back(marker);
    return success();
  }
  Result<bool> reached(unsigned marker) override {
    if (script_.loses) return lost();
    return script_.reached.count(marker) > 0;
  }
  Status wait(unsigned, bool) override {
    ++script_.waits;
    return script_.loses ? lost() : success();
  }

 private:
  Script& script_;
};

class CountingDevice final : public Device {
 public:
  explicit CountingDevice(CountingQueue::Script& script) : Device(nullptr), script_(script) {}
  const DeviceFacts& facts() const override { return facts_; }
  Result<std::unique_ptr<CopyQueue>> open_copy_queue(unsigned) override {
    return std::unique_ptr<CopyQueue>(std::make_unique<CountingQueue>(script_));
  }
  Status register_host(void*, std::size_t) override { return success(); }
  bool unregister_host(void*) override { return true; }
  void make_copies_synchronous(const void*) override {}

 private:
  CountingQueue::Script& script_;
  DeviceFacts facts_;
};

class StagedCopiesTest : public testing::Test, protected StagedCopies::Owner {
 protected:
  using Slots = std::vector<std::uint32_t>;

  void SetUp() override { ASSERT_TRUE(copies_.open(device_).ok()); }
  void add(std::uint32_t slot, std::uint64_t size = kSmall, Op op = Op::read) {
    copies_.add(slot, {.op = op, .memory = memory_, .host = memory_, .size = size});
  }
  void on_copied(std::uint32_t slot, const Status& status) override {
    (status.ok() ? copied_ : failed_).push_back(slot);
    waits_before_end_ = script_.waits;
  }

  CountingQueue::Script script_;
  CountingDevice device_{script_};
  StagedCopies copies_{kSlots, *this};
  std::byte memory_[1] = {};  // Its address is all that is used.
  Slots copied_, failed_;
  unsigned waits_before_end_ = 0;
};

TEST_F(StagedCopiesTest, SmallCopiesGoTogetherWithTheMarkerOfTheLast) {
  for (const std::uint32_t slot : {5u, 1u, 3u}) add(slot);
  EXPECT_TRUE(script_.calls.empty());
  EXPECT_FALSE(copies_.is_idle());

  copies_.queue_collected();

  EXPECT_EQ(script_.calls, (std::vector<std::size_t>{3}));
  EXPECT_EQ(script_.markers, (std::vector<unsigned>{3}));
  EXPECT_FALSE(copies_.reap(false));
  script_.reached = {3};
  EXPECT_TRUE(copies_.reap(false));
  EXPECT_EQ(copied_, (Slots{5, 1, 3}));
  EXPECT_TRUE(copies_.is_idle());
}

TEST_F(StagedCopiesTest, HalfOfTheSlotsAreNotCollectedAnyLonger) {
  for (std::uint32_t slot = 0; slot < kSlots / 2; ++slot) add(slot);

  EXPECT_EQ(script_.calls, (std::vector<std::size_t>{kSlots / 2}));
}

TEST_F(StagedCopiesTest, ALargeCopyGoesAtOnceAndByItself) {
  add(0);
  add(1, kLarge);

  EXPECT_EQ(script_.calls, (std::vector<std::size_t>{1}));
  EXPECT_EQ(script_.markers, (std::vector<unsigned>{1}));
}

TEST_F(StagedCopiesTest, ReadsAndWritesGoApart) {
  add(0, kSmall, Op::write);
  add(1, kSmall, Op::read);
  copies_.queue_collected();

  EXPECT_EQ(script_.calls, (std::vector<std::size_t>{1, 1}));
  EXPECT_FALSE(copies_.feeds_storage());
  script_.reached = {1};
  EXPECT_TRUE(copies_.reap(false));
  EXPECT_TRUE(copies_.feeds_storage());
}

TEST_F(StagedCopiesTest, AWaitIsForTheFirstMarkerAlone) {
  add(0, kLarge);
  add(1, kLarge);

  EXPECT_TRUE(copies_.reap(true));

  EXPECT_EQ(copied_, Slots{0});
  EXPECT_TRUE(copies_.has_queued());
}

TEST_F(StagedCopiesTest, CopiesThatCannotBeQueuedFailAtOnce) {
  script_.refuses = true;
  add(0);
  add(1);
  copies_.queue_collected();

  EXPECT_EQ(failed_, (Slots{0, 1}));
  EXPECT_TRUE(copies_.is_idle());
}

// More pieces than go together, so that the first copies are refused before the others are collected.
TEST_F(StagedCopiesTest, BehindAPieceThatIsRefusedNothingMoreIsQueued) {
  const std::vector<MemoryPiece> pieces(300, MemoryPiece{memory_, 1});
  script_.refuses = true;
  for (const std::uint32_t slot : {0u, 1u}) {
    copies_.add(slot, {.op = Op::read, .memory = RequestMemory(pieces), .host = memory_, .size = pieces.size()});
  }
  copies_.queue_collected();

  EXPECT_EQ(failed_, (Slots{0, 1}));
  EXPECT_EQ(script_.calls.size(), 1u);
  EXPECT_EQ(waits_before_end_, 1u);
}

// Some copies of the same call may have been queued before the one that was refused.
TEST_F(StagedCopiesTest, ARequestWhoseCopyIsRefusedEndsOnceTheCopiesBeforeItHaveLanded) {
  script_.refuses = true;
  add(0, kLarge);

  EXPECT_EQ(failed_, Slots{0});
  EXPECT_EQ(waits_before_end_, 1u);
}

TEST_F(StagedCopiesTest, ALostMarkerFailsAllCopiesBeforeIt) {
  add(0);
  add(1);
  copies_.queue_collected();
  script_.loses = true;

  EXPECT_TRUE(copies_.reap(false));

  EXPECT_EQ(failed_, (Slots{0, 1}));
  EXPECT_TRUE(copied_.empty());
}

TEST_F(StagedCopiesTest, WithoutADeviceThereIsNothingToReap) {
  StagedCopies none(kSlots, *this);
  none.queue_collected();

  EXPECT_FALSE(none.reap(true));
  EXPECT_TRUE(none.is_idle());
}

}  // namespace
}  // namespace penstock::core
