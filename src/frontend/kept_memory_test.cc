// SPDX-License-Identifier: Apache-2.0

// Host memory that a program has registered is registered with a queue's ring, too, for exactly as long: pages that the
// kernel keeps after that would be ones that the program has given back.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "device/host/host_device.h"
#include "fakes/fake_storage.h"
#include "fakes/test_config.h"
#include "frontend/channel_queue.h"
#include "frontend/transfer.h"
#include "session/session.h"

namespace penstock::core {
namespace {

constexpr std::size_t kBlock = 4096;
using Kept = std::vector<const void*>;

class KeptMemoryTest : public testing::Test {
 protected:
  void open(int flags) {
    auto storage = std::make_unique<FakeStorage>();
    storage->content.assign(8 * kBlock, 'f');
    storage->open_flags = flags;
    storage_ = storage.get();
    session_ = std::make_unique<Session>(test_config({{"workers", "1"}}), std::move(storage),
                                         std::make_unique<HostDeviceSet>());
    file_ = *session_->register_file(FakeStorage::kUserFd);
    queue_ = std::move(ChannelQueue::open(*session_, 4, kBlock).value());
  }
  std::byte* block(unsigned number) { return memory_.data() + number * kBlock; }
  RawRequest read(const void* base, unsigned number) {
    return {Op::read,
            file_,
            base,
            kBlock,
            number * static_cast<std::int64_t>(kBlock),
            number * static_cast<std::int64_t>(kBlock)};
  }
  void reap(unsigned count) {
    QueueCompletion done[4];
    ASSERT_EQ(queue_->reap(done, count), count);
    for (unsigned i = 0; i < count; ++i) EXPECT_TRUE(done[i].status.ok() && done[i].report.bytes == kBlock);
  }

  struct alignas(kBlock) Page {
    std::byte bytes[kBlock];
  };
  std::vector<Page> pages_{4};
  std::span<std::byte> memory_{pages_[0].bytes, 4 * kBlock};
  std::unique_ptr<Session> session_;
  FakeStorage* storage_ = nullptr;
  std::uint64_t file_ = 0;
  std::unique_ptr<ChannelQueue> queue_;
};

TEST_F(KeptMemoryTest, AQueueKeepsItOnceUntilItIsDeregistered) {
  open(O_RDWR | O_DIRECT);
  ASSERT_TRUE(session_->register_buffer(memory_.data(), memory_.size()).ok());
  for (unsigned i = 0; i < 2; ++i) ASSERT_TRUE(queue_->submit(read(memory_.data(), i), i).ok());
  reap(2);
  EXPECT_EQ(storage_->registered, Kept{memory_.data()});
  EXPECT_EQ(std::to_integer<char>(*block(1)), 'f');

  ASSERT_TRUE(session_->deregister_buffer(memory_.data()).ok());
  EXPECT_EQ(storage_->registered, Kept{});

  ASSERT_TRUE(queue_->submit(read(memory_.data(), 2), 2).ok());
  reap(1);
  EXPECT_EQ(storage_->registered, Kept{}) << "nobody tells any more when it is freed";
}

TEST_F(KeptMemoryTest, DeregisteringWaitsForRequestsUnderWay) {
  open(O_RDWR | O_DIRECT);
  ASSERT_TRUE(session_->register_buffer(memory_.data(), memory_.size()).ok());
  for (unsigned i = 0; i < 4; ++i) ASSERT_TRUE(queue_->submit(read(memory_.data(), i), i).ok());

  ASSERT_TRUE(session_->deregister_buffer(memory_.data()).ok());

  EXPECT_EQ(storage_->registered, Kept{});
  for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(std::to_integer<char>(*block(i)), 'f') << i;
  reap(4);
}

TEST_F(KeptMemoryTest, WhatIsRegisteredAnewIsKeptAnew) {
  open(O_RDWR | O_DIRECT);
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(session_->register_buffer(memory_.data(), memory_.size()).ok());
    ASSERT_TRUE(queue_->submit(read(memory_.data(), 0), 0).ok());
    reap(1);
    EXPECT_EQ(storage_->registered, Kept{memory_.data()});
    ASSERT_TRUE(session_->deregister_buffer(memory_.data()).ok());
    EXPECT_EQ(storage_->registered, Kept{});
  }
}

TEST_F(KeptMemoryTest, OtherMemoryIsNotKept) {
  open(O_RDWR | O_DIRECT);
  ASSERT_TRUE(queue_->submit(read(memory_.data(), 0), 0).ok());
  reap(1);
  EXPECT_EQ(storage_->registered, Kept{}) << "not registered";
  ASSERT_TRUE(session_->register_buffer(memory_.data(), memory_.size()).ok());
  EXPECT_TRUE(transfer(*session_, read(memory_.data(), 1)).status.ok());
  EXPECT_EQ(storage_->registered, Kept{}) << "a call, which would pin it for itself";
}

TEST_F(KeptMemoryTest, ThroughThePageCacheNothingIsKept) {
  open(O_RDWR);
  ASSERT_TRUE(session_->register_buffer(memory_.data(), memory_.size()).ok());
  ASSERT_TRUE(queue_->submit(read(memory_.data(), 0), 0).ok());
  reap(1);
  EXPECT_EQ(storage_->registered, Kept{});
}

}  // namespace
}  // namespace penstock::core
