// SPDX-License-Identifier: Apache-2.0

// Requests by a path whose calls wait for storage, as nvfs is: threads are all the depth there is, and what no thread
// has begun stays in the run queue.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "fakes/batch_fixture.h"
#include "fakes/fake_nvfs.h"
#include "fakes/fake_peer.h"
#include "fakes/waiting.h"
#include "frontend/channel_queue.h"
#include "frontend/transfer.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

constexpr unsigned kMany = 4;  // Threads.
constexpr std::uint64_t kFileBytes = 16u << 20, kBlock = 4096;

class BlockingPathTest : public testing::Test {
 protected:
  void SetUp() override {
    name_ = testing::TempDir() + "/penstock_blocking_XXXXXX";
    fd_.reset(::mkostemp(name_.data(), O_DIRECT | O_CLOEXEC));
    if (!fd_.valid()) GTEST_SKIP() << "no O_DIRECT in " << testing::TempDir();
    for (std::size_t i = 0; i < kFileBytes; ++i) content_.push_back(static_cast<char>(i * 31 + i / 257));
    const UniqueFd plain(::open(name_.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::pwrite(plain.get(), content_.data(), kFileBytes, 0), static_cast<ssize_t>(kFileBytes));
    ASSERT_EQ(::fsync(plain.get()), 0);
    peers_.add("0000:03:00.0", 96 << 20);
    peers_.give_each_its_own("0000:03:00.0");
    Config config = test_config({{"workers", std::to_string(kMany)}});
    config.paths = {PathId::nvfs, PathId::host};
    config.nvfs_kernel = module_;
    config.nvfs = NvfsUse::stand_in;
    session_ = std::make_unique<Session>(config, std::make_unique<PosixStorage>(true), std::move(*peers_.open()));
    frontends_ = std::make_unique<Frontends>(*session_);
    memory_ = static_cast<char*>(*device().memory().allocate(kFileBytes));
    file_ = *session_->register_file(fd_.get());
    const std::uint64_t number = *frontends_->open_batch(64);
    batch_ = frontends_->pin_batch(number);
    frontends_->unpin_batch(number);
    read_one();
  }
  void TearDown() override {
    barrier_.open();
    frontends_.reset();
    if (memory_ != nullptr) device().memory().release(memory_);
    session_.reset();
    if (fd_.valid()) ::unlink(name_.c_str());
  }

  Device& device() { return **session_->devices().device(0); }
  // Entry i reads its own block, and has the cookie i + 1.
  std::vector<QueuedRequest> entries(unsigned count) {
    std::vector<QueuedRequest> all;
    for (unsigned i = 0; i < count; ++i) {
      const auto offset = static_cast<std::int64_t>(i * kBlock);
      all.push_back({.request = {Op::read, file_, memory_, kBlock, offset, offset}, .cookie = cookie(i)});
    }
    return all;
  }
  static std::uint64_t cookie(unsigned i) { return std::uint64_t{i} + 1; }
  // So that the self-test is over, and the executor knows how such reads go.
  void read_one() {
    ASSERT_TRUE(batch_->submit(entries(1)).ok());
    QueueEvent event;
    ASSERT_EQ(batch_->reap({&event, 1}, 1, std::nullopt), 1u);
    ASSERT_TRUE(event.outcome.status.ok()) << describe(event.outcome.status);
    ASSERT_EQ(event.outcome.report.path, PathId::nvfs);
    ASSERT_TRUE(wait_until([this] { return frontends_->executor().moved_by() == MovedBy::thread; }));
  }
  void hold_up() {
    module_->drive = [this] { barrier_.pass(); };
  }

  Barrier barrier_;
  std::shared_ptr<FakeNvfs> module_ = std::make_shared<FakeNvfs>();
  FakePeers peers_;
  std::string name_, content_;
  UniqueFd fd_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Frontends> frontends_;
  char* memory_ = nullptr;
  std::uint64_t file_ = 0;
  ThreadedQueue* batch_ = nullptr;
};

TEST_F(BlockingPathTest, SmallReadsAreUnderWayOnEveryThreadAndTheOthersCanBeCanceled) {
  hold_up();
  ASSERT_TRUE(batch_->submit(entries(64)).ok());
  barrier_.wait_for(kMany);
  EXPECT_EQ(module_->under_way, kMany);
  unsigned canceled = 0;
  for (unsigned i = 0; i < 64; ++i) canceled += batch_->cancel(cookie(i));
  EXPECT_EQ(canceled, 64 - kMany) << "what is in the run queue has not begun";
  barrier_.open();
  std::vector<QueueEvent> events(64);
  ASSERT_EQ(batch_->reap(events, 64, std::nullopt), 64u);
  EXPECT_EQ(std::count_if(events.begin(), events.end(), [](const auto& event) { return event.outcome.status.ok(); }),
            kMany);
}

TEST_F(BlockingPathTest, ASmallRequestByAnotherPathHasNoThreadTakeMoreThanOne) {
  std::vector<char> host(kBlock);
  auto other = entries(1);
  other[0].request.base = host.data();
  ASSERT_TRUE(batch_->submit(other).ok());
  QueueEvent event;
  ASSERT_EQ(batch_->reap({&event, 1}, 1, std::nullopt), 1u);
  ASSERT_EQ(event.outcome.report.path, PathId::host);
  ASSERT_TRUE(wait_until([this] { return frontends_->executor().moved_by() == MovedBy::storage; }));
  hold_up();

  ASSERT_TRUE(batch_->submit(entries(64)).ok());
  barrier_.wait_for(kMany);

  unsigned canceled = 0;
  for (unsigned i = 0; i < 64; ++i) canceled += batch_->cancel(cookie(i));
  EXPECT_EQ(canceled, 64 - kMany);
  barrier_.open();
  std::vector<QueueEvent> events(64);
  EXPECT_EQ(batch_->reap(events, 64, std::nullopt), 64u);
}

TEST_F(BlockingPathTest, ADeadlineIsKeptWhileEveryThreadWaitsForStorage) {
  hold_up();
  ASSERT_TRUE(batch_->submit(entries(kMany)).ok());
  barrier_.wait_for(kMany);
  auto late = entries(1);
  late[0].deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
  ASSERT_TRUE(batch_->submit(late).ok());
  QueueEvent event;
  ASSERT_EQ(batch_->reap({&event, 1}, 1, std::nullopt), 1u);
  EXPECT_TRUE(event.outcome.status.is(Code::timed_out)) << describe(event.outcome.status);
  EXPECT_EQ(module_->under_way, kMany);
}

TEST_F(BlockingPathTest, SixtyFourReadsAtOnceAllArrive) {
  for (unsigned round = 0; round < 20; ++round) {
    std::fill(memory_, memory_ + 64 * kBlock, '\0');
    ASSERT_TRUE(batch_->submit(entries(64)).ok());
    std::vector<QueueEvent> events(64);
    ASSERT_EQ(batch_->reap(events, 64, std::nullopt), 64u);
    for (const QueueEvent& event : events) EXPECT_EQ(event.outcome.report.bytes, kBlock);
    EXPECT_TRUE(std::equal(memory_, memory_ + 64 * kBlock, content_.data()));
  }
}

// Nobody has taken a chunk that another one could begin.
TEST_F(BlockingPathTest, ChunksOfALargeReadAreUnderWayOnEveryWorkerAndTheCallersThread) {
  hold_up();
  Outcome outcome;
  std::thread caller([&] { outcome = transfer(*session_, {Op::read, file_, memory_, kFileBytes, 0, 0}); });
  barrier_.wait_for(kMany + 1);
  EXPECT_EQ(module_->under_way, kMany + 1);
  barrier_.open();
  caller.join();
  EXPECT_EQ(outcome.report.bytes, kFileBytes);
  EXPECT_TRUE(std::equal(memory_, memory_ + kFileBytes, content_.data()));
}

// ---- Queues of channels that are used by one thread

// The path cuts it every 16 MiB, and a queue has room for three chunks.
TEST_F(BlockingPathTest, AQueuesRequestIsCutByThePathAndRefusedWhereTheChunksAreTooMany) {
  constexpr std::uint64_t kCut = 16u << 20;
  ASSERT_EQ(::ftruncate(fd_.get(), 4 * kCut), 0);
  const auto memory = static_cast<char*>(*device().memory().allocate(4 * kCut));
  auto queue = std::move(ChannelQueue::open(*session_, 2, 4 * kCut).value());
  QueueCompletion done;

  EXPECT_TRUE(queue->submit({Op::read, file_, memory, 3 * kCut + kBlock, 0, 0}, 1).is(Code::limit));
  EXPECT_EQ(queue->reap({&done, 1}, 0), 0u) << "nothing of it has begun";
  memory[2 * kCut] = 'x';
  ASSERT_TRUE(queue->submit({Op::read, file_, memory, 2 * kCut + kBlock, 0, 0}, 2).ok());
  EXPECT_TRUE(queue->has_storage_under_way()) << "of the last chunk, which waits for room";

  ASSERT_EQ(queue->reap({&done, 1}, 1), 1u);
  EXPECT_EQ(done.cookie, 2u);
  EXPECT_EQ(done.report.bytes, 2 * kCut + kBlock) << describe(done.status);
  EXPECT_TRUE(std::equal(content_.begin(), content_.end(), memory));
  EXPECT_EQ(memory[2 * kCut], '\0') << "behind the old end";
  queue.reset();
  device().memory().release(memory);
}

// The channel opens what it bounces by where a caller may wait, and not beside requests that are under way.
TEST_F(BlockingPathTest, AQueueThatMayNotWaitHasItsChannelWarmedUpFirst) {
  auto queue = std::move(ChannelQueue::open(*session_, 4, kBlock).value());
  const RawRequest read{Op::read, file_, memory_, kBlock, 0, 0};
  std::vector<QueueCompletion> done(4);
  EXPECT_TRUE(queue->submit(read, 1, false).is(Code::limit)) << "there is no channel";
  ASSERT_TRUE(queue->submit(read, 1).ok());
  EXPECT_TRUE(queue->submit(read, 2, false).is(Code::limit)) << "it is cold";
  ASSERT_TRUE(queue->submit(read, 2).ok());
  ASSERT_EQ(queue->reap(done, 2), 2u);
  EXPECT_TRUE(queue->submit(read, 3, false).is(Code::limit)) << "it was in use";

  ASSERT_TRUE(queue->submit(read, 3).ok());
  EXPECT_TRUE(queue->submit(read, 4, false).ok());

  done.resize(2);
  ASSERT_EQ(queue->reap(done, 2), 2u);
  for (const QueueCompletion& each : done) EXPECT_EQ(each.report.bytes, kBlock) << describe(each.status);
  EXPECT_TRUE(std::equal(memory_, memory_ + kBlock, content_.data()));
}

}  // namespace
}  // namespace penstock::core
