// SPDX-License-Identifier: Apache-2.0

// The uses of a batch for queues of requests: canceling one by one, deadlines, a descriptor to wait with.
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>

#include "fakes/batch_fixture.h"
#include "fakes/waiting.h"

namespace penstock::core {
namespace {

bool is_readable(int fd) {
  pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&wanted, 1, 0) == 1 && wanted.revents == POLLIN;
}

class SubmissionTest : public BatchTest {
 protected:
  static constexpr unsigned kMany = 8;

  ~SubmissionTest() override {
    barrier_.open();
    frontends_.reset();  // Before its memory goes.
  }

  // Reads of which each thread has begun one, and cannot end it.
  ThreadedQueue& open_busy_batch() {
    hold_transfers_up();
    ThreadedQueue& batch = open_batch(2 * kMany);
    EXPECT_TRUE(batch.submit(entries(kMany, Op::read, host_.data())).ok());
    barrier_.wait_for(kThreads);
    return batch;
  }
  std::vector<QueuedRequest> refused(unsigned count) {
    std::vector<QueuedRequest> all = entries(count, Op::read, host_.data());
    for (QueuedRequest& entry : all) entry.refused = failure(Code::invalid_argument, "test");
    return all;
  }
  // One read, with a deadline.
  std::vector<QueuedRequest> due(TimePoint deadline, std::uint64_t number) {
    std::vector<QueuedRequest> one = entries(1, Op::read, host_.data());
    one[0].cookie = number;
    one[0].deadline = deadline;
    return one;
  }
  static std::uint64_t number_of(const QueueEvent& event) { return event.entry.cookie; }

  std::vector<char> host_ = std::vector<char>(2 * kMany * kLarge);
  std::vector<QueueEvent> events_ = std::vector<QueueEvent>(2 * kMany);
};

// ---- Canceling -----------------------------------------------------------------------------------------------------

TEST_F(SubmissionTest, ACanceledRequestIsReportedAndMovesNothing) {
  ThreadedQueue& batch = open_busy_batch();

  EXPECT_EQ(batch.cancel(kMany), 1u);

  ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);
  EXPECT_EQ(number_of(events_[0]), kMany);
  EXPECT_TRUE(events_[0].outcome.status.is(Code::canceled)) << describe(events_[0].outcome.status);
  EXPECT_EQ(events_[0].outcome.report.bytes, 0u);
}

TEST_F(SubmissionTest, CancelingOneLeavesTheOthersAlone) {
  ThreadedQueue& batch = open_busy_batch();
  ASSERT_EQ(batch.cancel(kMany), 1u);

  barrier_.open();

  ASSERT_EQ(batch.reap(events_, kMany, std::nullopt), kMany);
  for (const QueueEvent& event : std::span(events_).first(kMany)) {
    EXPECT_EQ(event.outcome.status.ok(), number_of(event) != kMany);
  }
}

TEST_F(SubmissionTest, AllRequestsOfACookieAreCanceled) {
  ThreadedQueue& batch = open_busy_batch();
  std::vector<QueuedRequest> twins = entries(3, Op::read, host_.data());
  for (QueuedRequest& entry : twins) entry.cookie = 77;
  ASSERT_TRUE(batch.submit(twins).ok());

  EXPECT_EQ(batch.cancel(77), 3u);
  EXPECT_EQ(batch.reap(events_, 3, std::nullopt), 3u);
}

TEST_F(SubmissionTest, WhatHasBegunIsNotCanceled) {
  ThreadedQueue& batch = open_busy_batch();

  EXPECT_EQ(batch.cancel(1), 0u);

  barrier_.open();
  ASSERT_EQ(batch.reap(events_, kMany, std::nullopt), kMany);
  for (const QueueEvent& event : std::span(events_).first(kMany)) EXPECT_TRUE(event.outcome.status.ok());
}

TEST_F(SubmissionTest, WhatIsDoneOrUnknownIsNotCanceled) {
  ThreadedQueue& batch = open_batch(4);
  ASSERT_TRUE(batch.submit(refused(1)).ok());

  EXPECT_EQ(batch.cancel(1), 0u);
  EXPECT_EQ(batch.cancel(2), 0u);

  ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);
  EXPECT_TRUE(events_[0].outcome.status.is(Code::invalid_argument));
}

TEST_F(SubmissionTest, WhoWaitsLearnsOfACanceledRequest) {
  ThreadedQueue& batch = open_busy_batch();

  std::thread waiter([&] { EXPECT_EQ(batch.reap(events_, 1, std::nullopt), 1u); });
  EXPECT_EQ(batch.cancel(kMany), 1u);

  waiter.join();
  EXPECT_TRUE(events_[0].outcome.status.is(Code::canceled));
}

// ---- Long requests -------------------------------------------------------------------------------------------------

TEST_F(SubmissionTest, LongRequestsLeaveOneThreadToOthers) {
  constexpr std::uint64_t kLong = 32u << 20;
  ASSERT_TRUE(session_->engine().is_long(kLong));
  std::vector<char> memory(kLong + 2 * kLarge);
  hold_transfers_up();
  ThreadedQueue& batch = open_batch(8);
  ASSERT_TRUE(batch.submit(entries(3, Op::write, memory.data(), kLong)).ok());
  barrier_.wait_for(1);
  std::vector<QueuedRequest> brief = entries(1, Op::write, host_.data());
  brief[0].cookie = 99;
  brief[0].request.file = 12345;  // It needs a thread, but no storage, which is held up.

  ASSERT_TRUE(batch.submit(brief).ok());

  ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);
  EXPECT_EQ(number_of(events_[0]), 99u);
  EXPECT_TRUE(events_[0].outcome.status.is(Code::not_registered)) << describe(events_[0].outcome.status);
  barrier_.open();
  EXPECT_EQ(batch.reap(events_, 3, std::nullopt), 3u);
}

// ---- Deadlines -----------------------------------------------------------------------------------------------------

TEST_F(SubmissionTest, WhatHasNotBegunByItsDeadlineTimesOutWhileAllThreadsAreBusy) {
  ThreadedQueue& batch = open_busy_batch();
  ASSERT_TRUE(batch.submit(due(*soon(), 99)).ok());

  ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);

  EXPECT_EQ(number_of(events_[0]), 99u);
  EXPECT_TRUE(events_[0].outcome.status.is(Code::timed_out)) << describe(events_[0].outcome.status);
  EXPECT_EQ(events_[0].outcome.report.bytes, 0u);
}

TEST_F(SubmissionTest, TheRestOfTheLineGoesOnAfterOneHasTimedOut) {
  ThreadedQueue& batch = open_busy_batch();
  ASSERT_TRUE(batch.submit(due(*soon(), 99)).ok());
  ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);

  barrier_.open();

  ASSERT_EQ(batch.reap(events_, kMany, std::nullopt), kMany);
  for (const QueueEvent& event : std::span(events_).first(kMany)) EXPECT_TRUE(event.outcome.status.ok());
}

TEST_F(SubmissionTest, AnEarlierDeadlineIsKeptThoughALaterOneCameFirst) {
  ThreadedQueue& batch = open_busy_batch();
  ASSERT_TRUE(batch.submit(due(std::chrono::steady_clock::now() + std::chrono::hours(1), 98)).ok());
  ASSERT_TRUE(batch.submit(due(*soon(), 99)).ok());

  ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);

  EXPECT_EQ(number_of(events_[0]), 99u);
}

TEST_F(SubmissionTest, ADeadlineThatHasPassedAlreadyLetsNothingMove) {
  ThreadedQueue& batch = open_batch(4);

  ASSERT_TRUE(batch.submit(due(std::chrono::steady_clock::now(), 99)).ok());

  ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);
  EXPECT_TRUE(events_[0].outcome.status.is(Code::timed_out));
  EXPECT_TRUE(storage_->accesses.empty());
}

TEST_F(SubmissionTest, WhatHasBegunGoesOnPastItsDeadline) {
  hold_transfers_up();
  ThreadedQueue& batch = open_batch(4);
  const int fd = batch.event_fd().value();
  TimePoint deadline;
  // On a busy machine no thread may come in time: then it has more time at the next try.
  for (auto time = std::chrono::milliseconds(50); barrier_.arrived() == 0; time *= 2) {
    deadline = std::chrono::steady_clock::now() + time;
    ASSERT_TRUE(batch.submit(due(deadline, 99)).ok());
    ASSERT_TRUE(wait_until([&] { return barrier_.arrived() > 0 || is_readable(fd); }));
    if (barrier_.arrived() == 0) {
      ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);
    }
  }
  EXPECT_TRUE(wait_until([&] { return std::chrono::steady_clock::now() > deadline; }));
  EXPECT_EQ(batch.reap(events_, 1, soon()), 0u);

  barrier_.open();

  ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);
  EXPECT_TRUE(events_[0].outcome.status.ok());
  EXPECT_EQ(events_[0].outcome.report.bytes, kLarge);
}

TEST_F(SubmissionTest, ADeadlineThatIsFarAwayChangesNothing) {
  ThreadedQueue& batch = open_batch(4);

  ASSERT_TRUE(batch.submit(due(std::chrono::steady_clock::now() + std::chrono::hours(1), 99)).ok());

  ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);
  EXPECT_TRUE(events_[0].outcome.status.ok());
}

TEST_F(SubmissionTest, TheDescriptorTellsOfADeadlineThoughNobodyReaps) {
  ThreadedQueue& batch = open_busy_batch();
  const int fd = batch.event_fd().value();

  ASSERT_TRUE(batch.submit(due(*soon(), 99)).ok());

  EXPECT_TRUE(wait_until([&] { return is_readable(fd); }));
  EXPECT_EQ(batch.reap(events_, 0, std::nullopt), 1u);
}

// ---- A descriptor to wait with -------------------------------------------------------------------------------------

TEST_F(SubmissionTest, TheDescriptorIsReadableExactlyWhileThereIsSomethingToReap) {
  ThreadedQueue& batch = open_batch(4);
  const int fd = batch.event_fd().value();
  EXPECT_FALSE(is_readable(fd));

  ASSERT_TRUE(batch.submit(refused(3)).ok());
  EXPECT_TRUE(is_readable(fd));
  ASSERT_EQ(batch.reap(std::span(events_).first(2), 2, std::nullopt), 2u);
  EXPECT_TRUE(is_readable(fd));
  ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);

  EXPECT_FALSE(is_readable(fd));
}

TEST_F(SubmissionTest, TheDescriptorTellsOfARequestThatAThreadMoved) {
  ThreadedQueue& batch = open_busy_batch();
  const int fd = batch.event_fd().value();
  EXPECT_FALSE(is_readable(fd));

  barrier_.open();

  EXPECT_TRUE(wait_until([&] { return is_readable(fd); }));
  EXPECT_GE(batch.reap(events_, 0, std::nullopt), 1u);
}

TEST_F(SubmissionTest, ADescriptorThatIsAskedForLateKnowsWhatIsDone) {
  ThreadedQueue& batch = open_batch(4);
  ASSERT_TRUE(batch.submit(refused(1)).ok());

  const int fd = batch.event_fd().value();

  EXPECT_TRUE(is_readable(fd));
  EXPECT_EQ(batch.event_fd().value(), fd);
}

TEST_F(SubmissionTest, NothingIsReadableOnceAllIsCanceled) {
  ThreadedQueue& batch = open_batch(4);
  const int fd = batch.event_fd().value();
  ASSERT_TRUE(batch.submit(refused(2)).ok());

  batch.cancel();

  EXPECT_FALSE(is_readable(fd));
}

// ---- All at once ---------------------------------------------------------------------------------------------------

TEST_F(SubmissionTest, ManyThreadsSubmitCancelAndReapAndEveryRequestIsReportedOnce) {
  constexpr unsigned kRounds = 200;
  constexpr unsigned kSubmitters = 4;
  ThreadedQueue& batch = open_batch(64);
  (void)batch.event_fd().value();
  std::atomic<unsigned> reported{0};
  std::atomic<unsigned> canceled{0};
  std::atomic<unsigned> told_canceled{0};
  const auto reap = [&](unsigned least) {
    QueueEvent events[8];
    const unsigned count = batch.reap(events, least, std::nullopt);
    reported += count;
    for (unsigned i = 0; i < count; ++i) told_canceled += events[i].outcome.status.is(Code::canceled) ? 1 : 0;
    return count;
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kSubmitters; ++t) {
    threads.emplace_back([&, t] {
      char* const memory = host_.data() + t * kLarge;
      const MemoryPiece pieces[] = {{memory, 3000}, {memory + 3000, 5000}, {memory + 8000, 100}};
      for (unsigned round = 0; round < kRounds; ++round) {
        QueuedRequest entry{.request = {Op::read, file_, memory, 4096, round * 4096, 0}, .cookie = round};
        if (round % 3 == 1) entry.deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(round);
        if (round % 2 == 1) entry.pieces = pieces;
        while (!batch.submit({&entry, 1}).ok()) reap(1);
        if (round % 5 == 0) canceled += batch.cancel(round);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (reap(1) > 0) {
  }

  EXPECT_EQ(reported, kRounds * kSubmitters);
  EXPECT_EQ(told_canceled, canceled);
}

}  // namespace
}  // namespace penstock::core
