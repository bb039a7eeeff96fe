// SPDX-License-Identifier: Apache-2.0

// Batches as cuFile has them: submitted as a whole, reaped, canceled and closed as a whole.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "fakes/batch_fixture.h"
#include "fakes/waiting.h"
#include "frontend/transfer.h"

namespace penstock::core {
namespace {

TEST_F(BatchTest, MovesEveryEntryAndReportsItOnce) {
  ThreadedQueue& batch = open_batch(32);
  std::vector<char> host(16 * kLarge, 'h');
  char* device = device_memory(16 * kLarge);
  std::fill(storage_->content.begin(), storage_->content.end(), 'f');
  auto mixed = entries(16, Op::read, device, 5000);
  for (QueuedRequest& entry : entries(8, Op::write, host.data(), 5000)) {
    entry.request.file_offset += 32 << 20;
    entry.cookie += 100;
    mixed.push_back(entry);
  }
  ASSERT_TRUE(batch.submit(mixed).ok());

  std::vector<QueueEvent> events(32);
  ASSERT_EQ(batch.reap(events, 24, std::nullopt), 24u);

  std::uint64_t cookies = 0;
  for (unsigned i = 0; i < 24; ++i) {
    EXPECT_TRUE(events[i].outcome.status.ok());
    EXPECT_EQ(events[i].outcome.report.bytes, 5000u);
    cookies += events[i].entry.cookie;
  }
  EXPECT_EQ(cookies, 16 * 17 / 2 + 8 * 9 / 2 + 800u);
  for (unsigned i = 0; i < 16; ++i) EXPECT_EQ(std::string(device + i * kLarge, 5000), std::string(5000, 'f'));
  for (unsigned i = 0; i < 8; ++i) {
    EXPECT_EQ(std::string(storage_->content.data() + (32u << 20) + i * kLarge, 5000), std::string(5000, 'h'));
  }
  EXPECT_EQ(batch.reap(events, 1, std::nullopt), 0u);
}

TEST_F(BatchTest, ASubmissionEndsWithTheLastOfItsEntries) {
  ThreadedQueue& batch = open_batch(32);
  std::vector<char> host(16 * kLarge);
  auto both = entries(3, Op::read, host.data(), 5000);
  both.push_back(entries(1, Op::write, host.data(), 700)[0]);
  ASSERT_TRUE(batch.submit(both).ok());
  ASSERT_TRUE(batch.submit(entries(2, Op::read, host.data(), 4096)).ok());
  both.resize(1);
  both[0].refused = failure(Code::invalid_argument, "test");
  ASSERT_TRUE(batch.submit(both).ok());

  std::vector<QueueEvent> events(32);
  ASSERT_EQ(batch.reap(events, 7, std::nullopt), 7u);

  unsigned ended = 0;
  unsigned good = 0;
  std::uint64_t bytes[2] = {};
  for (const QueueEvent& event : std::span(events).first(7)) {
    if (!event.ended) continue;
    ++ended;
    good += event.ended->ok ? 1 : 0;
    for (unsigned i = 0; i < 2; ++i) bytes[i] += event.ended->bytes[i];
  }
  EXPECT_EQ(ended, 3u);
  EXPECT_EQ(good, 2u);
  EXPECT_EQ(bytes[0], 3 * 5000u + 2 * 4096u);
  EXPECT_EQ(bytes[1], 700u);
}

class SmallRingBatchTest : public BatchTest {
 protected:
  SmallRingBatchTest() : BatchTest(4 << 20) {}
};

TEST_F(SmallRingBatchTest, LeavesRoomForOtherRequestsInASmallRing) {
  ThreadedQueue& batch = open_batch(64);
  char* device = device_memory(16 * kLarge);
  char* other = device_memory(8 * kLarge);
  std::vector<QueueEvent> events(64);
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(batch.submit(entries(16, Op::read, device, 4096)).ok());
    EXPECT_TRUE(transfer(*session_, {Op::read, file_, other, 8 * kLarge, 0, 0}).status.ok());
    ASSERT_EQ(batch.reap(events, 16, std::nullopt), 16u);
    for (unsigned i = 0; i < 16; ++i) EXPECT_TRUE(events[i].outcome.status.ok());
  }
}

TEST_F(BatchTest, HasRoomForWhatWasReapedAndRefusesMoreAsAWhole) {
  ThreadedQueue& batch = open_batch(4);
  std::vector<char> host(8 * kLarge);
  ASSERT_TRUE(batch.submit(entries(3, Op::read, host.data())).ok());
  std::vector<QueueEvent> events(4);

  EXPECT_TRUE(batch.submit(entries(2, Op::read, host.data())).is(Code::limit));
  EXPECT_EQ(batch.reap(std::span(events).first(2), 2, std::nullopt), 2u);
  EXPECT_TRUE(batch.submit(entries(3, Op::read, host.data())).ok());
  EXPECT_EQ(batch.reap(events, 4, std::nullopt), 4u);
  EXPECT_EQ(batch.reap(events, 4, std::nullopt), 0u);
}

TEST_F(BatchTest, NeverWaitsForMoreThanIsOutstanding) {
  ThreadedQueue& batch = open_batch(8);
  std::vector<char> host(8 * kLarge);
  std::vector<QueueEvent> events(8);
  EXPECT_EQ(batch.reap(events, 8, std::nullopt), 0u);

  ASSERT_TRUE(batch.submit(entries(2, Op::read, host.data())).ok());

  EXPECT_EQ(batch.reap(events, 8, std::nullopt), 2u);
}

TEST_F(BatchTest, ADeadlineEndsTheWaitAndLosesNothing) {
  hold_transfers_up();
  ThreadedQueue& batch = open_batch(4);
  std::vector<char> host(4 * kLarge);
  std::vector<QueueEvent> events(4);
  ASSERT_TRUE(batch.submit(entries(1, Op::read, host.data())).ok());

  EXPECT_EQ(batch.reap(events, 1, soon()), 0u);
  barrier_.open();
  EXPECT_EQ(batch.reap(events, 1, std::nullopt), 1u);
  EXPECT_EQ(events[0].outcome.report.bytes, kLarge);
}

TEST_F(BatchTest, WhoeverGivesMemoryBackWaitsForTheEntriesInItAlone) {
  hold_transfers_up();
  ThreadedQueue& batch = open_batch(2 * kThreads);
  std::vector<char> host(4 * kLarge), other(kLarge);
  ASSERT_TRUE(batch.submit(entries(2 * kThreads, Op::read, host.data())).ok());
  barrier_.wait_for(kThreads);  // The others have not begun.
  std::atomic<bool> is_free{false};

  batch.wait_for({other.data(), other.size()});
  batch.wait_for({host.data() + 4 * kLarge, 1});
  std::thread waiter([&] {
    batch.wait_for({host.data() + 3 * kLarge + 5, 1});
    is_free = true;
  });
  give_time_to_go_wrong();
  EXPECT_FALSE(is_free);

  barrier_.open();
  waiter.join();
  std::vector<QueueEvent> events(2 * kThreads);
  EXPECT_EQ(batch.reap(events, 2 * kThreads, std::nullopt), 2 * kThreads);
  for (const QueueEvent& event : events) EXPECT_EQ(event.outcome.report.bytes, kLarge);
}

// A test that hangs here has found what it looks for: each entry is under way before the one before it ends.
TEST_F(BatchTest, WhoeverGivesMemoryBackWaitsForNothingThatCameLater) {
  hold_transfers_up();
  ThreadedQueue& batch = open_batch(2);
  std::vector<char> host(kLarge);
  std::atomic<bool> shall_stop{false};
  ASSERT_TRUE(batch.submit(entries(1, Op::read, host.data(), 4096)).ok());
  barrier_.wait_for(1);
  std::thread producer([&] {
    for (unsigned number = 2; !shall_stop; ++number) {
      ASSERT_TRUE(batch.submit(entries(1, Op::read, host.data(), 4096)).ok());
      barrier_.wait_for(number);
      barrier_.let_through(number - 1);
      QueueEvent event;
      ASSERT_EQ(batch.reap({&event, 1}, 1, std::nullopt), 1u);
    }
    barrier_.open();
  });

  batch.wait_for({host.data(), host.size()});

  shall_stop = true;
  producer.join();
  QueueEvent last;
  EXPECT_EQ(batch.reap({&last, 1}, 1, std::nullopt), 1u);  // It reads into memory that goes now.
}

TEST_F(BatchTest, PiecesOfAVectoredEntryAreWaitedForWhereverTheyAre) {
  hold_transfers_up();
  ThreadedQueue& batch = open_batch(1);
  std::vector<char> host(2 * kLarge);
  const MemoryPiece pieces[] = {{host.data() + kLarge, 100}, {host.data(), 100}};
  QueuedRequest entry{.request = {.op = Op::read, .file = file_}, .pieces = pieces};
  ASSERT_TRUE(batch.submit({&entry, 1}).ok());
  std::atomic<bool> is_free{false};

  batch.wait_for({host.data() + 100, kLarge - 100});
  std::thread waiter([&] {
    batch.wait_for({host.data() + kLarge + 99, 1});
    is_free = true;
  });
  give_time_to_go_wrong();
  EXPECT_FALSE(is_free);

  barrier_.open();
  waiter.join();
  QueueEvent event;
  EXPECT_EQ(batch.reap({&event, 1}, 1, std::nullopt), 1u);
}

TEST_F(BatchTest, CancelingWaitsForWhatHasBegunAndReportsNothing) {
  hold_transfers_up();
  ThreadedQueue& batch = open_batch(64);
  std::vector<char> host(64 * kLarge);
  ASSERT_TRUE(batch.submit(entries(64, Op::read, host.data())).ok());
  barrier_.wait_for(kThreads);
  std::atomic<bool> canceled{false};

  std::thread canceler([&] {
    batch.cancel();
    canceled = true;
  });
  std::vector<QueueEvent> events(64);
  EXPECT_EQ(batch.reap(events, 64, soon()), 0u);
  EXPECT_FALSE(canceled);
  barrier_.open();
  canceler.join();

  EXPECT_EQ(batch.reap(events, 64, std::nullopt), 0u);
  EXPECT_TRUE(batch.submit(entries(64, Op::read, host.data())).ok());
  EXPECT_EQ(batch.reap(events, 64, std::nullopt), 64u);
}

TEST_F(BatchTest, WhoWaitsForEventsOfACanceledBatchComesToAnEnd) {
  hold_transfers_up();
  ThreadedQueue& batch = open_batch(64);
  std::vector<char> host(64 * kLarge);
  ASSERT_TRUE(batch.submit(entries(64, Op::read, host.data())).ok());
  barrier_.wait_for(kThreads);
  std::thread canceler([&] { batch.cancel(); });
  while (!batch.submit(entries(1, Op::read, host.data())).ok()) std::this_thread::yield();  // Now it has begun.

  std::vector<QueueEvent> events(64);
  std::thread waiter([&] { EXPECT_EQ(batch.reap(events, 64, std::nullopt), 1u); });
  barrier_.open();

  waiter.join();
  canceler.join();
}

TEST_F(BatchTest, ClosingWaitsForWhatHasBegun) {
  hold_transfers_up();
  ThreadedQueue& batch = open_batch(64);
  std::vector<char> host(64 * kLarge, 'x');
  ASSERT_TRUE(batch.submit(entries(64, Op::write, host.data())).ok());
  barrier_.wait_for(kThreads);
  std::atomic<bool> closed{false};

  std::thread closer([&] { closed = frontends_->close_batch(batch_); });
  give_time_to_go_wrong();
  EXPECT_FALSE(closed);
  barrier_.open();
  closer.join();

  EXPECT_TRUE(closed);
  EXPECT_FALSE(frontends_->close_batch(batch_));
  EXPECT_EQ(frontends_->pin_batch(batch_), nullptr);
}

TEST_F(BatchTest, ClosingTheSessionClosesItsBatches) {
  ThreadedQueue& batch = open_batch(64);
  std::vector<char> host(64 * kLarge);
  ASSERT_TRUE(batch.submit(entries(64, Op::read, host.data(), 4096)).ok());

  frontends_.reset();
  session_.reset();  // Under the memory checkers: nothing moves afterwards.
}

TEST_F(BatchTest, AnEntryThatWasRefusedIsReportedAsFailedAmongTheOthers) {
  ThreadedQueue& batch = open_batch(4);
  std::vector<char> host(4 * kLarge);
  auto three = entries(3, Op::read, host.data());
  three[1].refused = failure(Code::invalid_argument, "read the entry");
  three[2].request.file = 77;
  ASSERT_TRUE(batch.submit(three).ok());
  std::vector<QueueEvent> events(4);

  ASSERT_EQ(batch.reap(events, 3, std::nullopt), 3u);

  for (const QueueEvent& event : std::span(events).first(3)) {
    const auto cookie = event.entry.cookie;
    EXPECT_EQ(event.outcome.status.ok(), cookie == 1);
    EXPECT_EQ(event.outcome.status.is(Code::invalid_argument), cookie == 2);
    EXPECT_EQ(event.outcome.status.is(Code::not_registered), cookie == 3);
  }
}

TEST_F(BatchTest, WhoWaitsForSmallReadsDoesThemWhereNobodyElseIsFree) {
  ThreadedQueue& batch = open_batch(200);
  std::vector<char> host(8 * kLarge);
  storage_->seed = 1;  // Then what starts at a multiple of three sectors is in the page cache.
  storage_->held_from = kLarge;
  hold_transfers_up();
  ASSERT_TRUE(batch.submit(entries(kThreads, Op::read, host.data())).ok());
  barrier_.wait_for(kThreads);
  std::vector<QueuedRequest> small = entries(64, Op::read, device_memory(64 * kLarge), 4096);
  for (unsigned i = 0; i < small.size(); ++i) small[i].request.file_offset = i * 3 * 512;

  ASSERT_TRUE(batch.submit(small).ok());
  std::vector<QueueEvent> events(200);
  unsigned done = 0;
  while (done < 64) done += batch.reap(std::span(events).subspan(done), 64 - done, std::nullopt);

  EXPECT_EQ(done, 64u) << "the threads are held up, and nobody else was to do it";
  for (const QueueEvent& event : std::span(events).first(64)) EXPECT_EQ(event.outcome.report.bytes, 4096u);
  barrier_.open();
  EXPECT_EQ(batch.reap(events, kThreads, std::nullopt), kThreads);
}

TEST_F(BatchTest, WhoHelpsIsNotKeptByWhatHasToWaitForStorage) {
  Barrier storage;
  storage_->ring_barrier = &storage;
  storage_->seed = 0;  // All of them start at a multiple of three sectors: none is in the page cache.
  ThreadedQueue& batch = open_batch(96);
  std::vector<QueuedRequest> cold = entries(96, Op::read, device_memory(96 * kLarge), 4096);
  for (unsigned i = 0; i < cold.size(); ++i) cold[i].request.file_offset = i * 3 * 512;
  std::fill(storage_->content.begin(), storage_->content.end(), 'c');

  ASSERT_TRUE(batch.submit(cold).ok());
  std::vector<QueueEvent> events(96);
  EXPECT_EQ(batch.reap(events, 96, soon()), 0u);

  storage.open();
  EXPECT_EQ(batch.reap(events, 96, std::nullopt), 96u);
  for (const QueueEvent& event : events) EXPECT_TRUE(event.outcome.status.ok());
  for (unsigned i = 0; i < 96; ++i) {
    const char* const there = static_cast<const char*>(cold[i].request.base) + i * kLarge;
    EXPECT_EQ(std::string(there, 4096), std::string(4096, 'c'));
  }
}

TEST_F(BatchTest, ManyThreadsWithBatchesOfTheirOwnGetWhatTheyAskedFor) {
  for (std::size_t i = 0; i < storage_->content.size(); ++i) storage_->content[i] = static_cast<char>(i >> 12);
  char* const memory = device_memory(8 * kLarge);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const std::uint64_t number = *frontends_->open_batch(48);
      ThreadedQueue* const batch = frontends_->pin_batch(number);
      std::vector<QueueEvent> events(48);
      for (unsigned round = 0; round < 30; ++round) {
        std::vector<QueuedRequest> all;
        for (unsigned i = 0; i < 48; ++i) {
          const std::int64_t page = (t * 7919 + round * 48 + i) * 31 % 16000;
          all.push_back({.request = {Op::read, file_, memory + t * kLarge, 3000, page * 4096 + 100, i * 5001}});
        }
        ASSERT_TRUE(batch->submit(all).ok());
        for (unsigned done = 0; done < 48;) done += batch->reap(events, round % 2 == 0 ? 48 - done : 1, std::nullopt);
        for (const QueuedRequest& entry : all) {
          const char* const there = memory + t * kLarge + entry.request.buffer_offset;
          const char expected = static_cast<char>(entry.request.file_offset >> 12);
          ASSERT_EQ(there[0], expected);
          ASSERT_EQ(there[2999], expected);
        }
      }
      frontends_->unpin_batch(number);
      EXPECT_TRUE(frontends_->close_batch(number));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(BatchTest, ManyThreadsShareABatchAndEveryEntryIsReportedOnce) {
  ThreadedQueue& batch = open_batch(128);
  std::vector<char> host(kLarge);
  std::atomic<unsigned> reported{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      QueueEvent events[8];
      for (int round = 0; round < 50; ++round) {
        QueuedRequest entry{.request = {Op::read, file_, host.data(), 4096, 0, 0}};
        while (!batch.submit({&entry, 1}).ok()) reported += batch.reap(events, 1, std::nullopt);
        reported += batch.reap(events, round % 2, std::nullopt);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  QueueEvent events[128];
  while (const unsigned count = batch.reap(events, 1, std::nullopt)) reported += count;

  EXPECT_EQ(reported, 400u);
}

}  // namespace
}  // namespace penstock::core
