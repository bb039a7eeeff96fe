// SPDX-License-Identifier: Apache-2.0

// How a queue waits: with a limit of time in the kernel, and for memory that is given back.
#include "frontend/channel_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "device/host/host_device.h"
#include "fakes/fake_storage.h"
#include "fakes/test_config.h"
#include "fakes/waiting.h"
#include "frontend/transfer.h"

namespace penstock::core {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kBlock = 4096;

// Storage of which nothing comes until a wait with a limit of time was asked for; or, where there is no such wait,
// until it is let go.
class SlowStorage final : public FakeStorage {
 public:
  class SlowRing final : public Ring {
   public:
    SlowRing(std::unique_ptr<Ring> real, SlowStorage& storage) : real_(std::move(real)), storage_(storage) {}
    void push(const RingOp& op) override { real_->push(op); }
    Status submit() override { return real_->submit(); }
    Result<unsigned> reap(std::span<RingCompletion> completions, bool) override {
      return storage_.is_done ? real_->reap(completions, true) : 0u;
    }
    bool wait_until(std::chrono::steady_clock::time_point) override {
      ++storage_.waits;
      if (!storage_.has_limits) return false;
      storage_.is_done = true;
      return true;
    }
    Status register_memory(void*, std::size_t) override { return success(); }
    int register_file(int) override { return -1; }
    void unregister_file(int) override {}

   private:
    const std::unique_ptr<Ring> real_;
    SlowStorage& storage_;
  };

  Result<std::unique_ptr<Ring>> open_ring(unsigned depth) override {
    return std::unique_ptr<Ring>(std::make_unique<SlowRing>(std::move(FakeStorage::open_ring(depth).value()), *this));
  }
  Result<std::size_t> read_if_cached(int, void*, std::size_t, std::uint64_t) override {
    return os_failure(EAGAIN, "read from the page cache");
  }

  bool has_limits = true;
  std::atomic<bool> is_done{false};
  std::atomic<unsigned> waits{0};
};

class QueueTest : public testing::Test {
 protected:
  QueueTest() {
    auto storage = std::make_unique<SlowStorage>();
    storage->content.resize(1 << 20);
    storage_ = storage.get();
    session_ = std::make_unique<Session>(test_config({{"workers", "2"}}), std::move(storage),
                                         std::make_unique<HostDeviceSet>());
    file_ = *session_->register_file(FakeStorage::kUserFd);
    queue_ = std::move(ChannelQueue::open(*session_, 4, kBlock).value());
  }
  Status submit(std::uint64_t cookie) { return queue_->submit({Op::read, file_, host_.data(), kBlock, 0, 0}, cookie); }
  void* device_memory(std::size_t size) {
    return session_->devices().device(0).value()->memory().allocate(size).value();
  }
  // Until a reap that does so has found nothing.
  void wait_for_a_look() {
    ASSERT_TRUE(penstock::wait_until([this] { return storage_->waits > 0; }));
  }
  static ChannelQueue::Deadline in(std::chrono::nanoseconds time) { return std::chrono::steady_clock::now() + time; }

  SlowStorage* storage_ = nullptr;
  std::unique_ptr<Session> session_;
  std::uint64_t file_ = 0;
  std::vector<char> host_ = std::vector<char>(kBlock);
  std::unique_ptr<ChannelQueue> queue_;
  QueueCompletion done_;
};

TEST_F(QueueTest, AReapWithALimitOfTimeLeavesTheWaitToTheKernel) {
  ASSERT_TRUE(submit(7).ok());

  EXPECT_EQ(queue_->reap({&done_, 1}, 1, in(1h)), 1u);

  EXPECT_EQ(done_.cookie, 7u);
  EXPECT_EQ(storage_->waits, 1u);
}

TEST_F(QueueTest, OthersHaveTheQueueWhileAReapLooksAgainAndAgain) {
  storage_->has_limits = false;
  ASSERT_TRUE(submit(1).ok());
  std::atomic<bool> is_reaped{false};
  std::thread reaper([&] {
    EXPECT_EQ(queue_->reap({&done_, 1}, 1, in(1h)), 1u);
    is_reaped = true;
  });
  wait_for_a_look();

  for (std::uint64_t cookie = 2; cookie <= 4; ++cookie) EXPECT_TRUE(submit(cookie).ok());
  EXPECT_FALSE(is_reaped);

  storage_->is_done = true;
  reaper.join();
  std::vector<QueueCompletion> rest(3);
  EXPECT_EQ(queue_->reap(rest, 3), 3u);
}

TEST_F(QueueTest, AReapThatAnotherOvertookWaitsForNoMoreThanIsLeft) {
  storage_->has_limits = false;
  ASSERT_TRUE(submit(1).ok() && submit(2).ok());
  std::vector<QueueCompletion> first(2), second(2);
  unsigned reaped = 0;
  std::thread reaper([&] { reaped = queue_->reap(first, 2, in(1h)); });
  wait_for_a_look();

  storage_->is_done = true;
  const unsigned others = queue_->reap(second, 1, in(1h));
  reaper.join();

  EXPECT_EQ(reaped + others, 2u);
}

TEST_F(QueueTest, AReapOfTwoChannelsEndsInTimeAndLeavesTheirRequestsUnderWay) {
  RawRequest of_device{Op::read, file_, device_memory(kBlock), kBlock, 0, 0};
  ASSERT_TRUE(submit(1).ok() && queue_->submit(of_device, 2).ok());
  std::vector<QueueCompletion> both(2);

  EXPECT_EQ(queue_->reap(both, 2, in(1ms)), 0u);

  EXPECT_EQ(storage_->waits, 0u) << "a wait for one would leave the other";
  storage_->is_done = true;
  EXPECT_EQ(queue_->reap(both, 2, in(1h)), 2u);
  for (const QueueCompletion& each : both) EXPECT_EQ(each.report.bytes, kBlock) << each.cookie;
}

// The head of a direct write is in flight, and its tail waits for room.
TEST_F(QueueTest, ARequestWhoseHeadFailsDoesNotWaitForRoomForItsTail) {
  storage_->is_done = true;
  storage_->open_flags |= O_DIRECT;
  ASSERT_TRUE(session_->deregister_file(file_).ok());
  const std::uint64_t direct = *session_->register_file(FakeStorage::kUserFd);
  const RawRequest write{Op::write, direct, device_memory(4 * kBlock), 2 * kBlock, 100, 0};
  const std::unique_ptr<ChannelQueue> shallow = std::move(ChannelQueue::open(*session_, 1, 4 * kBlock).value());
  storage_->faults = {{}, {.error = EIO}};

  ASSERT_TRUE(shallow->submit(write, 1).ok());
  ASSERT_EQ(shallow->reap({&done_, 1}, 1), 1u);

  EXPECT_TRUE(done_.status.is_errno(EIO));
  EXPECT_EQ(storage_->accesses.size(), 2u);
  ASSERT_TRUE(shallow->submit(write, 2).ok());
  ASSERT_EQ(shallow->reap({&done_, 1}, 1), 1u);
  EXPECT_TRUE(done_.status.ok()) << describe(done_.status);
  EXPECT_EQ(done_.report.bytes, 2 * kBlock);
}

TEST_F(QueueTest, DrainingBringsAllToTheirEndAndLeavesThemToBeReaped) {
  ASSERT_TRUE(submit(1).ok() && submit(2).ok());
  storage_->is_done = true;

  queue_->drain();

  EXPECT_FALSE(queue_->has_storage_under_way());
  std::vector<QueueCompletion> both(2);
  EXPECT_EQ(queue_->reap(both, 2, in(0ns)), 2u);
}

// Their user may be waiting for the very call that needs the memory, as while a session is closed.
TEST_F(QueueTest, RequestsThatEndedAndAreNotReapedLeaveTheirMemoryToOthers) {
  Device* const device = session_->devices().device(0).value();
  const RawRequest read{Op::read, file_, device->memory().allocate(kBlock).value(), kBlock, 0, 0};
  queue_ = std::move(ChannelQueue::open(*session_, 4, 1 << 20).value());
  ASSERT_TRUE(queue_->submit(read, 7).ok());
  BounceBudget& budget = session_->engine().budget_of(device);
  while (budget.reserve(kBlock)) {
  }
  storage_->is_done = true;

  const Outcome other = transfer(*session_, read);

  EXPECT_TRUE(other.status.ok()) << describe(other.status);
  ASSERT_EQ(queue_->reap({&done_, 1}, 1), 1u);
  EXPECT_TRUE(done_.status.ok()) << describe(done_.status);
  EXPECT_EQ(done_.report.bytes, kBlock);
}

// A held stream waits for requests of host memory. They would hang if they closed a channel of its GPU to make room.
TEST_F(QueueTest, HostMemoryNeedsNoRoomThatADevicesChannelsHave) {
  Device* const device = session_->devices().device(0).value();
  BounceBudget& of_device = session_->engine().budget_of(device);
  while (of_device.reserve(kBlock)) {
  }

  BounceBudget& of_host = session_->engine().budget_of(nullptr);

  EXPECT_EQ(of_host.used(), 0u);
  EXPECT_TRUE(of_host.reserve(kBlock));
  of_host.give_back(kBlock);
}

}  // namespace
}  // namespace penstock::core
