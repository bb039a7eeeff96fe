// SPDX-License-Identifier: Apache-2.0

// Queues: many requests in flight from one thread, in every fixture.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "contract/fixture.h"
#include "fakes/waiting.h"

namespace penstock::core {
namespace {

class QueueTest : public ContractTest {
 protected:
  std::unique_ptr<ChannelQueue> open_queue(unsigned depth, std::uint64_t size) {
    return std::move(ChannelQueue::open(session(), depth, size).value());
  }
};
INSTANTIATE_TEST_SUITE_P(Fixtures, QueueTest, testing::ValuesIn(all_fixtures()), fixture_name);

TEST_P(QueueTest, EveryRequestCompletesOnceWithItsBytes) {
  constexpr std::uint64_t kBlock = 10'000;  // Not a multiple of anything.
  constexpr unsigned kCount = 200;
  const std::string content = pattern(kBlock * kCount, 1);
  set_file_content(content);
  std::byte* memory = allocate(kBlock * kCount);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);
  const auto queue = open_queue(16, kBlock);
  std::set<std::uint64_t> seen;
  unsigned next = 0;

  while (seen.size() < kCount) {
    while (next < kCount) {
      const std::int64_t at = static_cast<std::int64_t>(next * kBlock);
      const Status status = queue->submit({Op::read, file, memory, kBlock, at, at}, next);
      if (status.is(Code::limit)) break;
      ASSERT_TRUE(status.ok()) << describe(status);
      ++next;
    }
    QueueCompletion completions[5];
    const unsigned count = queue->reap(completions, 1);
    ASSERT_GT(count, 0u);
    for (unsigned i = 0; i < count; ++i) {
      expect_moved({completions[i].status, completions[i].report}, kBlock);
      EXPECT_TRUE(seen.insert(completions[i].cookie).second);
    }
  }

  EXPECT_TRUE(download(memory, kBlock * kCount) == content);
  QueueCompletion none;
  EXPECT_EQ(queue->reap({&none, 1}, 1), 0u) << "must not wait for what is not outstanding";
}

TEST_P(QueueTest, MovesARequestAsLargeAsItWasOpenedFor) {
  constexpr std::uint64_t kSize = 16 << 20;
  const std::string content = pattern(kSize, 5);
  set_file_content(content);
  std::byte* on_device = allocate(kSize);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);
  const auto queue = open_queue(2, kSize);

  const Status status = queue->submit({Op::read, file, on_device, kSize, 0, 0}, 1);
  ASSERT_TRUE(status.ok()) << describe(status);
  QueueCompletion completion;
  ASSERT_EQ(queue->reap({&completion, 1}, 1), 1u);

  EXPECT_TRUE(completion.status.ok()) << describe(completion.status);
  EXPECT_TRUE(download(on_device, kSize) == content);
}

TEST_P(QueueTest, MixesDirectionsAndKindsOfMemory) {
  const std::string content = pattern(1 << 20, 2);
  set_file_content(content);
  std::byte* on_device = allocate(1 << 20);
  upload(on_device, pattern(1 << 20, 3));
  std::string on_host(8192, 'h');
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);
  const auto behind = static_cast<std::int64_t>(file_size() + (1 << 20));
  const auto queue = open_queue(8, 65536);

  ASSERT_TRUE(queue->submit({Op::read, file, on_host.data(), 8000, 100, 0}, 1).ok());
  ASSERT_TRUE(queue->submit({Op::write, file, on_device, 65000, 200'001, 7}, 2).ok());
  ASSERT_TRUE(queue->submit({Op::read, file, on_device, 4096, 500'000, 500'000}, 3).ok());
  ASSERT_TRUE(queue->submit({Op::read, file, on_device, 4096, behind, 0}, 4).ok());
  QueueCompletion completions[8];
  ASSERT_EQ(queue->reap(completions, 4), 4u);

  for (unsigned i = 0; i < 4; ++i) {
    const std::uint64_t expected[] = {0, 8000, 65000, 4096, 0};
    EXPECT_TRUE(completions[i].status.ok()) << describe(completions[i].status);
    EXPECT_EQ(completions[i].report.bytes, expected[completions[i].cookie]) << completions[i].cookie;
    EXPECT_TRUE(goes_by(completions[i].report, completions[i].cookie == 1 ? PathId::host : fixture().path));
  }
  EXPECT_TRUE(on_host.substr(0, 8000) == content.substr(100, 8000));
  EXPECT_TRUE(file_content(200'001, 65000) == pattern(1 << 20, 3).substr(7, 65000));
  EXPECT_TRUE(download(on_device + 500'000, 4096) == content.substr(500'000, 4096));
}

TEST_P(QueueTest, BadRequestsFailAtOnceAndLeaveRoom) {
  std::byte* memory = allocate(8192);
  set_file_content(pattern(8192, 4));
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);
  const auto queue = open_queue(1, 4096);

  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(queue->submit({Op::read, file + 1000, memory, 10, 0, 0}, 1).is(Code::not_registered));
    EXPECT_TRUE(queue->submit({Op::read, file, memory, 10, -1, 0}, 1).is(Code::negative_offset));
    EXPECT_TRUE(queue->submit({Op::read, file, memory, 4097, 0, 0}, 1).is(Code::limit));
  }
  EXPECT_TRUE(queue->submit({Op::read, file, memory, 4096, 0, 0}, 1).ok());
  EXPECT_TRUE(queue->submit({Op::read, file, memory, 4096, 0, 0}, 1).is(Code::limit));

  QueueCompletion completion;
  EXPECT_EQ(queue->reap({&completion, 1}, 1), 1u);
}

TEST_P(QueueTest, AQueueOfNoOrAbsurdDepthOrOfNoBytesIsNotOpened) {
  EXPECT_FALSE(ChannelQueue::open(session(), 0, 4096).ok());
  EXPECT_FALSE(ChannelQueue::open(session(), 1 << 30, 4096).ok());
  EXPECT_FALSE(ChannelQueue::open(session(), 1, 0).ok());
}

TEST_P(QueueTest, AReapWithoutRoomStillGetsThingsGoing) {
  std::byte* memory = allocate(8192);
  upload(memory, std::string(8192, 'g'));
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);
  const auto queue = open_queue(4, 8192);
  ASSERT_TRUE(queue->submit({Op::write, file, memory, 8192, 0, 0}, 1).ok());

  EXPECT_TRUE(wait_until([&] {
    EXPECT_EQ(queue->reap({}, 0), 0u);
    return file_content(0, 8192) == std::string(8192, 'g');
  }));
}

TEST_P(QueueTest, ARequestMayBeReapedByAnotherThreadThanSubmittedIt) {
  constexpr unsigned kCount = 64;
  set_file_content(pattern(kCount * 65536, 7));
  std::byte* memory = allocate(kCount * 65536);
  const UniqueFd fd = open_fd();
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  const std::uint64_t file = register_fd(fd);
  const auto queue = open_queue(kCount, 65536);
  std::thread submitter([&] {
    for (unsigned i = 0; i < kCount; ++i) {
      EXPECT_TRUE(queue->submit({Op::read, file, memory, 65536, i * 65536, i * 65536}, i).ok());
    }
    EXPECT_EQ(queue->reap({}, 0), 0u);
  });
  submitter.join();

  QueueCompletion completions[kCount];
  ASSERT_EQ(queue->reap(completions, kCount), kCount);

  for (const QueueCompletion& completion : completions) expect_moved({completion.status, completion.report}, 65536);
  EXPECT_TRUE(download(memory, kCount * 65536) == pattern(kCount * 65536, 7));
}

TEST_P(QueueTest, DeregisteringAFileWithRequestsInFlightDoesNotHang) {
  std::byte* memory = allocate(1 << 20);
  set_file_content(pattern(1 << 20, 5));
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);
  const auto queue = open_queue(32, 4096);
  for (unsigned i = 0; i < 32; ++i) ASSERT_TRUE(queue->submit({Op::read, file, memory, 4096, i * 4096, 0}, i).ok());

  ASSERT_TRUE(session().deregister_file(file).ok());

  QueueCompletion completions[32];
  EXPECT_EQ(queue->reap(completions, 32), 32u);
  for (const QueueCompletion& completion : completions) expect_moved({completion.status, completion.report}, 4096);
}

TEST_P(QueueTest, AQueueClosedWithRequestsInFlightWaitsForThem) {
  std::byte* memory = allocate(1 << 20);
  set_file_content(pattern(1 << 20, 6));
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);
  {
    const auto queue = open_queue(16, 65536);
    for (unsigned i = 0; i < 16; ++i) {
      ASSERT_TRUE(queue->submit({Op::read, file, memory, 65536, i * 65536, i * 65536}, i).ok());
    }
  }

  std::uint64_t counted = 0;
  for (unsigned reason = 0; reason < kReasonCount; ++reason) {
    for (const PathRow& row : kPaths) {
      counted += session().counters().total(row.id, static_cast<Reason>(reason), Op::read).bytes;
    }
  }
  EXPECT_EQ(counted, 1u << 20);
  EXPECT_TRUE(session().deregister_file(file).ok());
}

}  // namespace
}  // namespace penstock::core
