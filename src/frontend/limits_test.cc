// SPDX-License-Identifier: Apache-2.0

// A session that its configuration holds back: each limit does what it says.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "device/host/host_device.h"
#include "fakes/fake_storage.h"
#include "fakes/test_config.h"
#include "fakes/waiting.h"
#include "frontend/transfer.h"
#include "session/session.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kMib = 1 << 20;

// Notes which threads read. The first ones wait until as many have come as are expected, however busy the machine is.
class MeetingStorage final : public FakeStorage {
 public:
  Result<std::size_t> read(int fd, void* memory, std::size_t size, std::uint64_t offset) override {
    meet();
    return FakeStorage::read(fd, memory, size, offset);
  }
  Result<std::size_t> read_if_cached(int fd, void* memory, std::size_t size, std::uint64_t offset) override {
    meet();
    return FakeStorage::read_if_cached(fd, memory, size, offset);
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return threads_.size();
  }

  std::size_t expected = 0;

 private:
  void meet() {
    if (expected == 0) return;
    {
      const std::lock_guard lock(mutex_);
      threads_.insert(std::this_thread::get_id());
    }
    EXPECT_TRUE(wait_until([this] { return count() >= expected; }));
    be_slow(std::chrono::milliseconds(2));  // Gives threads above the limit, if there are any, time to come here.
  }

  std::mutex mutex_;
  std::set<std::thread::id> threads_;
};

class LimitsTest : public testing::Test {
 protected:
  Session& open(const std::function<void(Config&)>& change, int more_flags = 0) {
    Config config = test_config({{"workers", "4"}});
    change(config);
    auto storage = std::make_unique<MeetingStorage>();
    storage->content.resize(32 * kMib);
    storage->open_flags |= more_flags;
    storage_ = storage.get();
    session_ = std::make_unique<Session>(config, std::move(storage), std::make_unique<HostDeviceSet>());
    return *session_;
  }
  void* device_memory(std::size_t size) {
    return session_->devices().device(0).value()->memory().allocate(size).value();
  }
  std::uint64_t registered() { return session_->register_file(FakeStorage::kUserFd).value(); }
  Outcome move(Op op, void* memory, std::uint64_t size, std::int64_t offset = 0) {
    storage_->accesses.clear();
    return transfer(*session_, {op, file_ != 0 ? file_ : (file_ = registered()), memory, size, offset, 0});
  }
  std::uint64_t largest_access() const {
    std::uint64_t largest = 0;
    for (const FakeStorage::Access& access : storage_->accesses)
      largest = std::max<std::uint64_t>(largest, access.size);
    return largest;
  }
  // How many threads take part in a read of 16 MiB: at least as many as expected.
  std::size_t threads(std::size_t expected) {
    storage_->expected = expected;
    EXPECT_TRUE(move(Op::read, device_memory(16 * kMib), 16 * kMib).status.ok());
    return storage_->count();
  }

  std::unique_ptr<Session> session_;
  MeetingStorage* storage_ = nullptr;
  std::uint64_t file_ = 0;
};

TEST_F(LimitsTest, NoOperationIsLargerThanAllowed) {
  Session& session = open([](Config& config) { config.operation_max = 256 << 10; });
  std::vector<char> host(16 * kMib);

  ASSERT_EQ(move(Op::read, device_memory(16 * kMib), 16 * kMib).report.bytes, 16 * kMib);
  EXPECT_EQ(largest_access(), 256u << 10);
  ASSERT_EQ(move(Op::read, device_memory(kMib), kMib).report.bytes, kMib);
  EXPECT_EQ(largest_access(), 256u << 10);
  session.engine().limit_operations((64 << 10) + 1000);
  ASSERT_EQ(move(Op::write, host.data(), host.size(), 100).report.bytes, host.size());
  EXPECT_EQ(largest_access(), 64u << 10);
  session.engine().limit_operations(UINT64_MAX);
  ASSERT_EQ(move(Op::read, device_memory(16 * kMib), 16 * kMib).report.bytes, 16 * kMib);
  EXPECT_GE(largest_access(), kMib);
}

TEST_F(LimitsTest, NoRequestGetsMoreHandsThanAllowed) {
  open([](Config&) {});
  EXPECT_GT(threads(3), 2u);
  file_ = 0;
  open([](Config& config) { config.threads_max = 1; });
  EXPECT_EQ(threads(1), 1u);
  file_ = 0;
  open([](Config& config) { config.threads_max = 2; });
  EXPECT_EQ(threads(2), 2u);
  file_ = 0;
  open([](Config& config) { config.share_min = 10 * kMib; });  // Too much for two to share 16 MiB.
  EXPECT_EQ(threads(1), 1u);
  file_ = 0;
  open([](Config& config) { config.share_min = 8 * kMib; });
  EXPECT_EQ(threads(2), 2u);
}

TEST_F(LimitsTest, UnalignedWritesGoThroughThePageCacheWhereAskedTo) {
  const auto direct = [&] {
    return std::count_if(storage_->accesses.begin(), storage_->accesses.end(),
                         [](const FakeStorage::Access& access) { return access.o_direct; });
  };
  const auto change = [](Config& config) { config.cached_unaligned_writes = true; };
  open(change, O_DIRECT);

  ASSERT_TRUE(move(Op::write, device_memory(kMib), 20'000, 100).status.ok());
  EXPECT_EQ(direct(), 0);
  ASSERT_TRUE(move(Op::write, device_memory(kMib), 8192, 512).status.ok());
  EXPECT_EQ(direct(), 0);
  ASSERT_TRUE(move(Op::write, device_memory(kMib), 8192, 4096).status.ok());
  EXPECT_GT(direct(), 0);
  ASSERT_TRUE(move(Op::read, device_memory(kMib), 20'000, 100).status.ok());
  EXPECT_GT(direct(), 0);
  file_ = 0;
  open([](Config&) {}, O_DIRECT);
  ASSERT_TRUE(move(Op::write, device_memory(kMib), 20'000, 100).status.ok());
  EXPECT_GT(direct(), 0);
}

TEST_F(LimitsTest, WithoutABouncePathDeviceMemoryIsRefusedAndHostMemoryIsServed) {
  open([](Config& config) { config.paths = {PathId::p2pdma, PathId::host}; });
  std::vector<char> host(4096);

  EXPECT_TRUE(move(Op::read, device_memory(4096), 4096).status.is(Code::path_refused));
  EXPECT_TRUE(move(Op::read, host.data(), 4096).status.ok());
}

TEST_F(LimitsTest, ADeniedFileIsServedByBounceAloneAndSaysSo) {
  Session& session = open([](Config& config) { config.denylist.mounts = {"/data"}; });  // Its mount cannot be found.

  const Outcome outcome = move(Op::read, device_memory(4096), 4096);

  EXPECT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.report.path, PathId::bounce);
  EXPECT_EQ(outcome.report.refused, static_cast<int>(PathId::p2pdma));
  EXPECT_EQ(outcome.report.reason, Reason::denied);
  EXPECT_TRUE(session.file_facts(file_)->denied);
}

TEST_F(LimitsTest, ADeniedFileIsNotRegisteredWhereNoBouncePathIsAllowed) {
  Session& session = open([](Config& config) {
    config.denylist.mounts = {"/data"};
    config.paths = {PathId::p2pdma, PathId::host};
  });

  EXPECT_TRUE(session.register_file(FakeStorage::kUserFd).status().is(Code::denied));
}

}  // namespace
}  // namespace penstock::core
