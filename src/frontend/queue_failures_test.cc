// SPDX-License-Identifier: Apache-2.0

// Queues refuse entries, or take some of them, and go on behind that.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <random>
#include <vector>

#include "fakes/batch_fixture.h"
#include "fakes/forbidden_calls.h"
#include "fakes/refusing_device.h"
#include "frontend/channel_queue.h"
#include "frontend/polled_queue.h"
#include "frontend/transfer.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kBlock = 4096;

class QueueFailures : public BatchTest {
 protected:
  QueueFailures() {
    for (std::size_t i = 0; i < 4 * kLarge; ++i) storage_->content[i] = static_cast<char>(i * 31 >> 9);
  }
  bool is_content(const char* memory, std::uint64_t offset, std::uint64_t size) const {
    return std::memcmp(memory, storage_->content.data() + offset, size) == 0;
  }
  // Makes the entries of the vector one by one; a null one cannot be made.
  using Entries = std::vector<std::optional<QueuedRequest>>;
  static Status make(const void* all, unsigned index, QueuedRequest& made) {
    const auto& entry = (*static_cast<const Entries*>(all))[index];
    if (!entry) return failure(Code::bad_pointer, "make the request");
    made = *entry;
    return success();
  }
  Entries reads(unsigned count, char* memory) {
    const std::vector<QueuedRequest> all = entries(count, Op::read, memory, kBlock);
    return {all.begin(), all.end()};
  }
  std::vector<QueueEvent> events_ = std::vector<QueueEvent>(16);
};

TEST_F(QueueFailures, ATermThatMakesNoQueueIsRefused) {
  for (const auto& [depth, bytes] :
       {std::pair(0u, kBlock), {4097u, kBlock}, {4u, std::uint64_t{0}}, {4u, kLarge << 11}}) {
    EXPECT_TRUE(ChannelQueue::open(*session_, depth, bytes).status().is(Code::invalid_argument)) << depth;
    EXPECT_TRUE(PolledQueue::open(*session_, depth, bytes).status().is(Code::invalid_argument)) << depth;
  }
  EXPECT_TRUE(frontends_->open_batch(0).status().is(Code::invalid_argument));
}

TEST_F(QueueFailures, WhatABatchHasRoomForIsTakenAndTheRestIsSaid) {
  char* const memory = device_memory(16 * kLarge);
  struct Row {
    const char* name;
    unsigned count, unmade;  // The entry that cannot be made.
    std::uint32_t taken;
    Code code;  // ok if none.
  };
  constexpr unsigned kNone = 100;
  const Row rows[] = {{"nothing", 0, kNone, 0, Code::ok},
                      {"as much as there is room for", 4, kNone, 4, Code::ok},
                      {"more", 7, kNone, 4, Code::limit},
                      {"one that cannot be made among others", 4, 2, 2, Code::bad_pointer},
                      {"none that can be made", 3, 0, 0, Code::bad_pointer}};
  ThreadedQueue& batch = open_batch(4);
  for (const Row& row : rows) {
    Entries all = reads(row.count, memory);
    if (row.unmade < all.size()) all[row.unmade].reset();
    std::uint32_t taken = 0;

    const Status status = batch.submit(row.count, make, &all, taken);

    EXPECT_TRUE(row.code == Code::ok ? status.ok() : status.is(row.code)) << row.name << ": " << describe(status);
    EXPECT_EQ(taken, row.taken) << row.name;
    ASSERT_EQ(batch.reap(events_, taken, std::nullopt), taken) << row.name;
    for (unsigned i = 0; i < taken; ++i) {
      EXPECT_TRUE(events_[i].outcome.status.ok()) << row.name;
      EXPECT_EQ(events_[i].ended.has_value(), i + 1 == taken) << row.name << ": the submission ends with its last";
    }
  }
  EXPECT_TRUE(is_content(memory + 3 * kLarge, 3 * kLarge, kBlock));
}

TEST_F(QueueFailures, AFullBatchTakesNothingMore) {
  hold_transfers_up();
  char* const memory = device_memory(16 * kLarge);
  ThreadedQueue& batch = open_batch(2);
  const Entries all = reads(3, memory);
  std::uint32_t taken = 0;
  EXPECT_TRUE(batch.submit(3, make, &all, taken).is(Code::limit));
  EXPECT_EQ(taken, 2u);
  taken = 0;
  EXPECT_TRUE(batch.submit(1, make, &all, taken).is(Code::limit));
  EXPECT_EQ(taken, 0u);
  barrier_.open();
  EXPECT_EQ(batch.reap(events_, 2, std::nullopt), 2u);
}

TEST_F(QueueFailures, ABatchWithoutADescriptorToWaitForIsReapedAsBefore) {
  ThreadedQueue& batch = open_batch(2);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status status = batch.event_fd().status();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(status.is_errno(EMFILE)) << describe(status);
  const Entries all = reads(1, device_memory(kLarge));
  std::uint32_t taken = 0;
  ASSERT_TRUE(batch.submit(1, make, &all, taken).ok());
  EXPECT_EQ(batch.reap(events_, 1, std::nullopt), 1u);
  EXPECT_TRUE(batch.event_fd().ok());
}

TEST_F(QueueFailures, APolledQueueSaysWhatItDoesNotTake) {
  auto queue = std::move(PolledQueue::open(*session_, 2, kBlock).value());
  const MemoryPiece piece{device_memory(kBlock), kBlock};
  const auto striped = std::make_shared<Striped>();
  Entries ones = reads(4, static_cast<char*>(piece.iov_base));
  ones[0]->pieces = {&piece, 1};
  ones[1]->striped = striped.get();
  ones[2]->deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  ones[3]->request.file = 12345;
  const Code codes[] = {Code::unsupported, Code::unsupported, Code::timed_out, Code::not_registered};
  for (std::size_t i = 0; i < ones.size(); ++i) {
    const Entries one = {ones[i]};
    std::uint32_t taken = 0;
    EXPECT_TRUE(queue->submit(1, make, &one, taken).is(codes[i])) << i;
    EXPECT_EQ(taken, 0u);
  }
  const Entries unmade(1);
  std::uint32_t taken = 0;
  EXPECT_TRUE(queue->submit(1, make, &unmade, taken).is(Code::bad_pointer));
  EXPECT_TRUE(queue->event_fd().status().is(Code::unsupported));
}

// A row of requests that are like the one before is routed once; each of these differs from it in one thing.
TEST_F(QueueFailures, ARequestThatIsUnlikeTheOneBeforeGoesItsOwnWay) {
  char* const buffer = device_memory(4 * kBlock);
  char* const other = device_memory(4 * kBlock);
  for (char* const each : {buffer, other}) ASSERT_TRUE(session_->register_buffer(each, 4 * kBlock).ok());
  const UniqueFd beside = storage_->open_user_fd(O_RDWR);
  const std::uint64_t second = session_->register_file(beside.get()).value();
  auto queue = std::move(ChannelQueue::open(*session_, 4, 4 * kBlock).value());
  const auto moved = [&](const RawRequest& request) {
    if (const Status status = queue->submit(request, 1); !status.ok()) return Outcome{status, {}};
    QueueCompletion done;
    EXPECT_EQ(queue->reap({&done, 1}, 1), 1u);
    return Outcome{done.status, done.report};
  };
  const RawRequest like{.op = Op::read, .file = file_, .base = buffer, .size = kBlock};
  RawRequest unlike[6] = {like, like, like, like, like, like};
  unlike[0].base = other;
  unlike[1].op = Op::write;
  unlike[2].file = second;
  unlike[3].required = PathId::bounce;
  unlike[4].buffer_offset = 3 * kBlock;
  unlike[5].size = 2 * kBlock;
  for (const RawRequest& each : unlike) {
    EXPECT_TRUE(queue->submit(like, 1).ok());
    const Outcome outcome = moved(each);  // The two of them are reaped in any order.
    QueueCompletion rest;
    EXPECT_EQ(queue->reap({&rest, 1}, 1), 1u);
    EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
    const auto* const at = static_cast<const char*>(each.base) + each.buffer_offset;
    EXPECT_TRUE(is_content(at, 0, each.size));
  }
  ASSERT_TRUE(moved(like).status.ok());
  EXPECT_TRUE(queue->submit(like, 1).ok());
  char* const third = device_memory(kBlock);
  ASSERT_TRUE(session_->register_buffer(third, kBlock).ok());  // It might lie where the route's buffer was.
  EXPECT_TRUE(moved(like).status.ok());
  QueueCompletion rest;
  EXPECT_EQ(queue->reap({&rest, 1}, 1), 1u);
  RawRequest beyond = like, elsewhere = like;
  beyond.buffer_offset = 3 * kBlock + 1;
  elsewhere.required = PathId::p2pdma;
  ASSERT_TRUE(moved(like).status.ok());
  EXPECT_TRUE(moved(beyond).status.is(Code::out_of_range));
  ASSERT_TRUE(moved(like).status.ok());
  EXPECT_TRUE(moved(elsewhere).status.is(Code::path_refused));
}

TEST_F(QueueFailures, AQueueOfSeveralDevicesAndFilesEndsAllThatItBegan) {
  const UniqueFd beside = storage_->open_user_fd(O_RDWR);
  const std::uint64_t files[] = {file_, session_->register_file(beside.get()).value()};
  std::vector<char> host(32 * kBlock);
  char* const memories[] = {
      static_cast<char*>(session_->devices().device(0).value()->memory().allocate(32 * kBlock).value()),
      static_cast<char*>(session_->devices().device(1).value()->memory().allocate(32 * kBlock).value()), host.data()};
  std::mt19937 random(5);
  auto queue = std::move(ChannelQueue::open(*session_, 8, kBlock).value());
  std::vector<QueueCompletion> done(8);
  unsigned begun = 0, ended = 0;
  for (int i = 0; i < 2000; ++i) {
    if (random() % 2 == 0) {
      const std::uint64_t block = random() % 32;
      const RawRequest read{Op::read,
                            files[random() % 2],
                            memories[random() % 3],
                            kBlock,
                            static_cast<std::int64_t>(block * kBlock),
                            static_cast<std::int64_t>(block * kBlock)};
      begun += queue->submit(read, begun).ok() ? 1 : 0;
    } else {
      const auto least = static_cast<unsigned>(random() % 3);
      const auto now = std::chrono::steady_clock::now();
      const ChannelQueue::Deadline deadlines[] = {std::nullopt, now, now + std::chrono::hours(1)};
      const unsigned count = queue->reap(std::span(done).first(1 + random() % 8), least, deadlines[random() % 3]);
      for (unsigned j = 0; j < count; ++j) EXPECT_TRUE(done[j].status.ok()) << describe(done[j].status);
      ended += count;
    }
  }
  queue->drain();
  while (const unsigned count = queue->reap(done, 1)) ended += count;
  EXPECT_EQ(ended, begun);
  EXPECT_GT(begun, 500u);
  for (const std::uint64_t file : files) EXPECT_TRUE(session_->deregister_file(file).ok()) << "a pin was left behind";
}

// While numbers of threads are tried it is moved in parts, which meet at whole ones of the file.
TEST_F(QueueFailures, ALargeReadThatIsTriedInPartsHasAllOfItsBytes) {
  constexpr std::uint64_t kBegin = 100, kSize = (132u << 20) - 200;
  storage_->content.resize(132u << 20);
  for (std::size_t i = 0; i < storage_->content.size(); i += 997) storage_->content[i] = static_cast<char>(i / 997);
  char* const memory = device_memory(kSize);
  for (int turn = 0; turn < 2; ++turn) {
    std::memset(memory, 0, kSize);
    const Outcome outcome = transfer(*session_, {Op::read, file_, memory, kSize, kBegin, 0});
    EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
    EXPECT_EQ(outcome.report.bytes, kSize);
    EXPECT_TRUE(is_content(memory, kBegin, kSize)) << turn;
  }
}

// More devices than a queue has channels for.
class ManyDevices final : public DeviceSet {
 public:
  unsigned count() const override { return 10; }
  Result<Device*> device(unsigned place) override { return &devices_[place]; }
  PointerFacts describe(const void* pointer) override { return describe_among(devices_, pointer); }
  Result<StreamHome*> stream_home(void*) override { return failure(Code::unsupported, "use the stream"); }

 private:
  HostDevice devices_[10] = {{0, ""}, {1, ""}, {2, ""}, {3, ""}, {4, ""}, {5, ""}, {6, ""}, {7, ""}, {8, ""}, {9, ""}};
};

TEST(QueueOfManyDevices, ChannelsThatAreIdleMakeRoomAndThoseInUseDoNot) {
  auto storage = std::make_unique<FakeStorage>();
  storage->content.resize(1 << 20);
  Session session(test_config({{"workers", "2"}}), std::move(storage), std::make_unique<ManyDevices>());
  const std::uint64_t file = session.register_file(FakeStorage::kUserFd).value();
  auto queue = std::move(ChannelQueue::open(session, 16, kBlock).value());
  QueueCompletion done[16];
  for (const bool waits : {true, false}) {
    unsigned begun = 0;
    for (unsigned place = 0; place < 10; ++place) {
      void* const memory = session.devices().device(place).value()->memory().allocate(kBlock).value();
      const Status status = queue->submit({Op::read, file, memory, kBlock, 0, 0}, place);
      EXPECT_TRUE(status.ok() || status.is(Code::limit)) << describe(status);
      begun += status.ok() ? 1 : 0;
      if (waits) {
        EXPECT_EQ(queue->reap(done, 1), 1u);
      }
    }
    EXPECT_EQ(begun, waits ? 10u : 8u);
    if (!waits) {
      EXPECT_EQ(queue->reap(done, 16), 8u);
    }
  }
}

TEST_F(QueueFailures, ASessionThatStopsEndsItsQueuesWhichAreReapedAfterwards) {
  auto queue = std::move(ChannelQueue::open(*session_, 2, kBlock).value());
  const RawRequest read{Op::read, file_, device_memory(kBlock), kBlock, 0, 0};
  ASSERT_TRUE(queue->submit(read, 7).ok());
  EXPECT_EQ(in_child([&] {
              QueueCompletion done;
              return queue->reap({&done, 1}, 0) == 0 && queue->submit(read, 8).is(Code::closed) ? 0 : 1;
            }),
            0);
  session_->stop();
  EXPECT_TRUE(queue->submit(read, 8).is(Code::closed));
  QueueCompletion done;
  ASSERT_EQ(queue->reap({&done, 1}, 1), 1u);
  EXPECT_TRUE(done.status.ok());
  EXPECT_EQ(done.cookie, 7u);
}

TEST(QueueMemory, AChannelThatCannotBeOpenedLeavesItsMemoryToOthers) {
  Refusals refusals;
  auto storage = std::make_unique<FakeStorage>();
  storage->content.resize(1 << 20);
  Session session(test_config({{"workers", "2"}}), std::move(storage), std::make_unique<RefusingDevices>(refusals));
  const std::uint64_t file = session.register_file(FakeStorage::kUserFd).value();
  void* const memory = session.devices().device(0).value()->memory().allocate(kBlock).value();
  auto queue = std::move(ChannelQueue::open(session, 2, kBlock).value());
  for (unsigned n = 1; n <= 2; ++n) {
    refusals.refuse(n);
    EXPECT_TRUE(queue->submit({Op::read, file, memory, kBlock, 0, 0}, 1).is(Code::device_lost));
    EXPECT_EQ(session.engine().bounce_bytes(), 0u);
  }
  refusals.refuse(0);
  ASSERT_TRUE(queue->submit({Op::read, file, memory, kBlock, 0, 0}, 1).ok());
  EXPECT_GT(session.engine().bounce_bytes(), 0u);
  QueueCompletion done;
  EXPECT_EQ(queue->reap({&done, 1}, 1), 1u);
  queue.reset();
  EXPECT_EQ(session.engine().bounce_bytes(), 0u);
}

// A request of which no chunk met the device's error itself had ended with "the session is closed".
TEST(QueueMemory, ARefusedCopyIsToldByAllRequestsThatItTakesAlong) {
  Refusals refusals;
  auto storage = std::make_unique<FakeStorage>();
  storage->content.resize(1 << 20);
  Session session(test_config({{"workers", "2"}}), std::move(storage), std::make_unique<RefusingDevices>(refusals));
  const std::uint64_t file = session.register_file(FakeStorage::kUserFd).value();
  void* const memory = session.devices().device(0).value()->memory().allocate(32 * kBlock).value();
  unsigned failed = 0;
  for (const Op op : {Op::read, Op::write}) {
    for (unsigned nth = 1; nth == 1 || refusals.was_refused(); ++nth) {
      auto queue = std::move(ChannelQueue::open(session, 16, 2 * kBlock).value());
      refusals.refuse(nth);
      const auto expect_told = [&](const Status& status) {
        EXPECT_TRUE(status.ok() || status.is(Code::device_lost))
            << "the device's call " << nth << ": " << describe(status);
        failed += status.ok() ? 0 : 1;
      };
      std::vector<QueueCompletion> done(16);
      for (unsigned i = 0; i < 16; ++i) {
        const std::int64_t offset = static_cast<std::int64_t>(2 * i * kBlock) + (op == Op::write ? 100 : 0);
        const Status status = queue->submit({op, file, memory, kBlock, offset, 0}, i);
        if (!status.is(Code::closed)) expect_told(status);  // The queue takes nothing more, and another way may.
      }
      const unsigned count = queue->reap(done, 16);
      for (unsigned i = 0; i < count; ++i) expect_told(done[i].status);
    }
  }
  EXPECT_GT(failed, 100u);
}

}  // namespace
}  // namespace penstock::core
