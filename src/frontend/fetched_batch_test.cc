// SPDX-License-Identifier: Apache-2.0

// Batches of small reads that the device fetches out of the page cache by itself: they begin in the call that submits
// them, and end with the call that reaps them. The test decides when the device has fetched them.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/unique_fd.h"
#include "device/host/host_device.h"
#include "fakes/noise.h"
#include "fakes/test_config.h"
#include "fakes/waiting.h"
#include "frontend/frontends.h"
#include "frontend/transfer.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

constexpr std::size_t kSize = 4u << 20;
constexpr std::size_t kBlock = 4096;

// Copies end while it is open. Remembers who began them.
class Gate {
 public:
  void close() { set(false); }
  void open() { set(true); }
  bool is_open() const { return open_; }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_.load(); });
  }
  void note_beginner() {
    const std::lock_guard lock(mutex_);
    beginners_.insert(std::this_thread::get_id());
  }
  std::set<std::thread::id> take_beginners() {
    const std::lock_guard lock(mutex_);
    return std::exchange(beginners_, {});
  }

 private:
  void set(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> open_{true};
  std::set<std::thread::id> beginners_;
};

class GatedCopies final : public CopyQueue {
 public:
  GatedCopies(std::unique_ptr<CopyQueue> real, Gate& gate) : real_(std::move(real)), gate_(gate) {}
  Status copy_many(std::span<const Copy> copies, Direction direction) override {
    return real_->copy_many(copies, direction);
  }
  Status record(unsigned marker) override {
    gate_.note_beginner();
    return real_->record(marker);
  }
  Result<bool> reached(unsigned marker) override {
    if (!gate_.is_open()) return false;
    return real_->reached(marker);
  }
  Status wait(unsigned marker, bool spin) override {
    gate_.pass();
    return real_->wait(marker, spin);
  }

 private:
  const std::unique_ptr<CopyQueue> real_;
  Gate& gate_;
};

class GatedDevice final : public HostDevice {
 public:
  explicit GatedDevice(Gate& gate) : HostDevice(0, "host"), gate_(gate) {}
  Result<std::unique_ptr<CopyQueue>> open_copy_queue(unsigned markers) override {
    auto real = HostDevice::open_copy_queue(markers);
    return std::unique_ptr<CopyQueue>(std::make_unique<GatedCopies>(std::move(real.value()), gate_));
  }

 private:
  Gate& gate_;
};

class GatedDevices final : public DeviceSet {
 public:
  explicit GatedDevices(Gate& gate) : device_(gate) {}
  unsigned count() const override { return 1; }
  Result<Device*> device(unsigned place) override {
    if (place > 0) return failure(Code::no_device, "find the device");
    return static_cast<Device*>(&device_);
  }
  PointerFacts describe(const void* pointer) override {
    PointerFacts facts;
    (void)device_.find(pointer, facts);
    return facts;
  }
  Result<StreamHome*> stream_home(void*) override { return failure(Code::unsupported, "use the stream"); }

 private:
  GatedDevice device_;
};

class FetchedBatchTest : public testing::Test {
 protected:
  void SetUp() override {
    fd_ = UniqueFd(::memfd_create("fetched_batch_test", MFD_CLOEXEC));
    ASSERT_TRUE(fd_.valid());
    content_ = noise(kSize, 1);
    ASSERT_EQ(::pwrite(fd_.get(), content_.data(), kSize, 0), static_cast<ssize_t>(kSize));
    open(std::make_unique<PosixStorage>(true));
    if (session_->storage().io_uring_error() != 0)
      GTEST_SKIP() << "no io_uring here, so callers do no reads themselves";
  }
  void open(std::unique_ptr<Storage> storage) {
    frontends_.reset();
    Config config = test_config({{"workers", "2"}, {"paths", "pagecache,bounce,host"}});
    config.register_at_once = true;
    session_ = std::make_unique<Session>(config, std::move(storage), std::make_unique<GatedDevices>(gate_));
    frontends_ = std::make_unique<Frontends>(*session_);
    file_ = *session_->register_file(fd_.get());
    memory_ = static_cast<std::byte*>(session_->devices().device(0).value()->memory().allocate(kSize).value());
    const RawRequest all{Op::read, file_, memory_, kSize, 0, 0};
    if (transfer(*session_, all).report.path != PathId::pagecache) GTEST_SKIP() << "no file is fetched here";
  }
  void TearDown() override {
    gate_.open();
    frontends_.reset();
  }

  // The first ones show what way such reads go, and open what they need.
  ThreadedQueue& open_batch(unsigned capacity) {
    number_ = *frontends_->open_batch(capacity);
    ThreadedQueue& batch = *frontends_->pin_batch(number_);
    frontends_->unpin_batch(number_);
    EXPECT_TRUE(begins_here_at_last(batch));
    return batch;
  }
  bool begins_here_at_last(ThreadedQueue& batch) {
    return wait_until([&] {
      (void)gate_.take_beginners();
      submit(batch, 4);
      const bool here = began_here();
      take(batch, 4, 4);
      return here;
    });
  }
  // Block after block, from the file's start on; the memory is empty before.
  void submit(ThreadedQueue& batch, unsigned count, TimePoint deadline = kNoDeadline) {
    std::memset(memory_, 0, kSize);
    std::vector<QueuedRequest> entries;
    for (unsigned i = 0; i < count; ++i) {
      const auto offset = static_cast<std::int64_t>(i * kBlock);
      entries.push_back({.request = {Op::read, file_, memory_, kBlock, offset, offset}, .deadline = deadline});
    }
    ASSERT_TRUE(batch.submit(entries).ok());
  }
  static unsigned reap(ThreadedQueue& batch, unsigned least) {
    std::vector<QueueEvent> events(batch.capacity());
    const unsigned count = batch.reap(events, least, std::nullopt);
    for (unsigned i = 0; i < count; ++i) {
      EXPECT_TRUE(events[i].outcome.status.ok()) << describe(events[i].outcome.status);
      EXPECT_EQ(events[i].outcome.report.bytes, kBlock);
    }
    return count;
  }
  // Waits for so many at a time, until all have come; they are the file's.
  void take(ThreadedQueue& batch, unsigned count, unsigned least) {
    unsigned taken = 0;
    EXPECT_TRUE(wait_until([&] { return (taken += reap(batch, least)) >= count; }));
    EXPECT_EQ(taken, count);
    EXPECT_EQ(std::memcmp(memory_, content_.data(), count * kBlock), 0);
  }
  // They have begun in the call, and the device has them until the gate opens.
  void hold_up(ThreadedQueue& batch, unsigned count) {
    gate_.close();
    submit(batch, count);
    ASSERT_TRUE(began_here());
  }
  bool began_here() { return gate_.take_beginners() == std::set{std::this_thread::get_id()}; }

  Gate gate_;
  UniqueFd fd_;
  std::string content_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Frontends> frontends_;
  std::uint64_t file_ = 0;
  std::uint64_t number_ = 0;
  std::byte* memory_ = nullptr;
};

TEST_F(FetchedBatchTest, BeginInTheCallAndEndWithWhoWaits) {
  ThreadedQueue& batch = open_batch(32);
  ASSERT_NO_FATAL_FAILURE(hold_up(batch, 32));
  EXPECT_EQ(reap(batch, 0), 0u);
  gate_.open();
  take(batch, 32, 32);
}

TEST_F(FetchedBatchTest, WhoOnlyLooksGetsAllInTheEnd) {
  ThreadedQueue& batch = open_batch(32);
  ASSERT_NO_FATAL_FAILURE(hold_up(batch, 20));
  gate_.open();
  take(batch, 20, 0);
}

TEST_F(FetchedBatchTest, MoreThanAQueueTakesAreAllRead) {
  ThreadedQueue& batch = open_batch(500);
  gate_.close();
  submit(batch, 400);
  gate_.open();
  take(batch, 400, 400);
  submit(batch, 500);
  take(batch, 500, 1);
}

TEST_F(FetchedBatchTest, AnotherThreadCanWaitForThem) {
  ThreadedQueue& batch = open_batch(8);
  ASSERT_NO_FATAL_FAILURE(hold_up(batch, 8));
  std::atomic<unsigned> taken{0};
  std::thread other([&] { taken = reap(batch, 8); });
  give_time_to_go_wrong();
  EXPECT_EQ(taken, 0u);
  gate_.open();
  other.join();
  EXPECT_EQ(taken, 8u);
}

TEST_F(FetchedBatchTest, WhoWaitsAlreadyGetsThoseThatComeLater) {
  ThreadedQueue& batch = open_batch(8);
  gate_.close();
  submit(batch, 4);
  std::atomic<unsigned> taken{0};
  std::thread other([&] { taken = reap(batch, 4); });
  give_time_to_go_wrong();
  submit(batch, 4);
  gate_.open();
  other.join();
  take(batch, 8 - taken, 1);
}

TEST_F(FetchedBatchTest, ADescriptorTellsOfThemThoughNobodyReaps) {
  ThreadedQueue& batch = open_batch(8);
  ASSERT_NO_FATAL_FAILURE(hold_up(batch, 8));
  pollfd descriptor{*batch.event_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&descriptor, 1, 0), 0);
  gate_.open();
  EXPECT_TRUE(wait_until([&] { return ::poll(&descriptor, 1, 1000) == 1; }));
  take(batch, 8, 8);
  submit(batch, 8);
  EXPECT_FALSE(began_here());
  EXPECT_TRUE(wait_until([&] { return ::poll(&descriptor, 1, 1000) == 1; }));
  take(batch, 8, 8);
}

TEST_F(FetchedBatchTest, ThoseWithADeadlineAreWatched) {
  ThreadedQueue& batch = open_batch(8);
  submit(batch, 8, std::chrono::steady_clock::now() + std::chrono::hours(1));
  EXPECT_EQ(gate_.take_beginners().count(std::this_thread::get_id()), 0u);
  take(batch, 8, 8);
}

TEST_F(FetchedBatchTest, AWriteAmongThemLeavesThemAllToThreads) {
  ThreadedQueue& batch = open_batch(8);
  std::vector<QueuedRequest> entries(2);
  entries[0].request = {Op::read, file_, memory_, kBlock, 0, 0};
  entries[1].request = {Op::write, file_, memory_ + kBlock, kBlock, 2 * kBlock, 0};
  std::memset(memory_, 'w', 2 * kBlock);
  (void)gate_.take_beginners();

  ASSERT_TRUE(batch.submit(entries).ok());

  EXPECT_EQ(gate_.take_beginners().count(std::this_thread::get_id()), 0u);
  EXPECT_EQ(reap(batch, 2), 2u);
  EXPECT_EQ(std::memcmp(memory_, content_.data(), kBlock), 0);
  std::string written(kBlock, '\0');
  ASSERT_EQ(::pread(fd_.get(), written.data(), kBlock, 2 * kBlock), static_cast<ssize_t>(kBlock));
  EXPECT_EQ(written, std::string(kBlock, 'w'));
}

class RinglessStorage final : public PosixStorage {
 public:
  RinglessStorage() : PosixStorage(false) {}
  int io_uring_error() override { return EPERM; }
};

// A thread has one transfer under way there, and a caller that began some would hold up the others.
TEST_F(FetchedBatchTest, WithoutIoUringThreadsReadAlsoWhatTheDeviceFetches) {
  open(std::make_unique<RinglessStorage>());
  ThreadedQueue batch(frontends_->executor(), 8);
  for (int round = 0; round < 20; ++round) {
    (void)gate_.take_beginners();
    submit(batch, 8);
    EXPECT_EQ(gate_.take_beginners().count(std::this_thread::get_id()), 0u);
    take(batch, 8, 8);
  }
  EXPECT_NE(frontends_->executor().moved_by(), MovedBy::device);
}

TEST_F(FetchedBatchTest, WhatHasBegunIsNotCanceled) {
  ThreadedQueue& batch = open_batch(8);
  gate_.close();
  submit(batch, 8);
  EXPECT_EQ(batch.cancel(0), 0u);
  gate_.open();
  take(batch, 8, 8);
}

TEST_F(FetchedBatchTest, ABatchIsClosedWithReadsInFlight) {
  ThreadedQueue& batch = open_batch(8);
  ASSERT_NO_FATAL_FAILURE(hold_up(batch, 8));
  std::atomic<bool> closed{false};
  std::thread other([&] {
    EXPECT_TRUE(frontends_->close_batch(number_));
    closed = true;
  });
  give_time_to_go_wrong();
  EXPECT_FALSE(closed);
  gate_.open();
  other.join();
  EXPECT_EQ(std::memcmp(memory_, content_.data(), 8 * kBlock), 0);
}

TEST_F(FetchedBatchTest, AFileThatIsDeregisteredMeanwhileIsReadFirst) {
  ThreadedQueue& batch = open_batch(8);
  ASSERT_NO_FATAL_FAILURE(hold_up(batch, 8));
  std::thread other([&] { EXPECT_TRUE(session_->deregister_file(file_).ok()); });
  give_time_to_go_wrong();
  gate_.open();
  other.join();
  take(batch, 8, 8);
}

// A queue of penstock.h is there after its session, too, to be reaped and closed.
TEST_F(FetchedBatchTest, WhatIsInFlightWhenTheSessionEndsIsReapedAfterIt) {
  ThreadedQueue batch(frontends_->executor(), 8);
  ASSERT_TRUE(begins_here_at_last(batch));
  ASSERT_NO_FATAL_FAILURE(hold_up(batch, 8));
  std::atomic<bool> ended{false};
  std::thread other([&] {
    frontends_.reset();
    ended = true;
  });
  give_time_to_go_wrong();
  EXPECT_FALSE(ended);
  gate_.open();
  other.join();
  take(batch, 8, 8);
  EXPECT_EQ(reap(batch, 0), 0u);
  EXPECT_EQ(reap(batch, 8), 0u);
}

TEST_F(FetchedBatchTest, WhatIsDoneWhenTheSessionEndsIsReapedAfterIt) {
  ThreadedQueue batch(frontends_->executor(), 8);
  ASSERT_TRUE(begins_here_at_last(batch));
  submit(batch, 8);
  frontends_.reset();
  take(batch, 8, 8);
}

TEST_F(FetchedBatchTest, MoreBatchesThanThereAreQueuesForAllGetTheirReads) {
  ThreadedQueue& first = open_batch(8);
  std::vector<ThreadedQueue*> others;
  for (int i = 0; i < 8; ++i) others.push_back(&open_batch(8));
  gate_.close();
  submit(first, 8);
  for (ThreadedQueue* batch : others) submit(*batch, 8);
  gate_.open();
  for (ThreadedQueue* batch : others) EXPECT_EQ(reap(*batch, 8), 8u);
  take(first, 8, 8);  // All have read the same bytes to the same place.
}

TEST_F(FetchedBatchTest, ManyThreadsSubmitAndReapAndEveryReadIsReportedOnce) {
  constexpr unsigned kRounds = 200, kThreads = 3, kEach = 8;
  ThreadedQueue& batch = open_batch(kThreads * kEach);
  std::memset(memory_, 0, kSize);
  std::atomic<unsigned> taken{0};
  std::vector<std::thread> threads;
  for (unsigned self = 0; self < kThreads; ++self) {
    threads.emplace_back([&, self] {
      for (unsigned round = 0; round < kRounds; ++round) {
        std::array<QueuedRequest, kEach> entries;
        for (unsigned i = 0; i < kEach; ++i) {
          const auto offset = static_cast<std::int64_t>((self * kEach + i) * kBlock);
          entries[i].request = {Op::read, file_, memory_, kBlock, offset, offset};
        }
        while (!batch.submit(entries).ok()) taken += reap(batch, 0);
        taken += reap(batch, round % 3);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(wait_until([&] { return (taken += reap(batch, 1)) >= kThreads * kRounds * kEach; }));
  EXPECT_EQ(taken, kThreads * kRounds * kEach);
  EXPECT_EQ(std::memcmp(memory_, content_.data(), kThreads * kEach * kBlock), 0);
}

}  // namespace
}  // namespace penstock::core
