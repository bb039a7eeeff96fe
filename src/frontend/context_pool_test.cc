// SPDX-License-Identifier: Apache-2.0

#include "frontend/context_pool.h"

#include <gtest/gtest.h>

#include "device/host/host_device.h"
#include "fakes/fake_storage.h"
#include "fakes/test_config.h"

namespace penstock::core {
namespace {

constexpr unsigned kThreads = 2;

struct Caller final : JobContextHolder {
  void return_context() override {}
};

struct Read final : Job {
  void complete(const Outcome&) override {}
};

// A pool with a context for each of two threads.
class ContextPoolTest : public testing::Test {
 protected:
  ContextPoolTest() {
    auto storage = std::make_unique<FakeStorage>();
    storage->content.resize(64 << 10);
    session_ = std::make_unique<Session>(test_config(), std::move(storage), std::make_unique<HostDeviceSet>());
    read_.request.file = session_->register_file(FakeStorage::kUserFd).value();
    read_.request.base = session_->devices().device(0).value()->memory().allocate(4096).value();
    read_.request.size = 4096;
    for (unsigned i = 0; i < kThreads; ++i) add();
  }
  void add() { pool_.add(std::make_unique<JobContext>(*session_, true, false)); }
  // A context that a caller gave back with a read in flight.
  JobContext* orphan() {
    add();
    JobContext* const lent = pool_.lend(caller_, nullptr);
    EXPECT_TRUE(lent->begin(read_));
    EXPECT_TRUE(pool_.give_back(*lent, caller_));
    return lent;
  }

  std::unique_ptr<Session> session_;
  Read read_;
  Caller caller_;
  std::atomic<bool> has_orphaned_{false};
  ContextPool pool_{kThreads, has_orphaned_};
};

TEST_F(ContextPoolTest, AThreadGetsItsUsualContextOrElseTheLatestUsed) {
  JobContext* const latest = pool_.take_idle(nullptr);
  JobContext* const previous = pool_.take_idle(nullptr);
  pool_.put_idle(*previous);
  pool_.put_idle(*latest);

  EXPECT_EQ(pool_.take_idle(previous), previous);
  EXPECT_EQ(pool_.take_idle(previous), latest);
}

TEST_F(ContextPoolTest, AnAddedContextIsTheLastToBeTaken) {
  JobContext* const used = pool_.take_idle(nullptr);
  pool_.put_idle(*used);
  add();
  EXPECT_EQ(pool_.take_idle(nullptr), used);
}

TEST_F(ContextPoolTest, WhatIsLentIsMissingForThreads) {
  EXPECT_TRUE(pool_.is_short_of(kThreads));
  add();
  EXPECT_FALSE(pool_.is_short_of(kThreads));

  JobContext* const lent = pool_.lend(caller_, nullptr);
  EXPECT_TRUE(pool_.is_short_of(kThreads));
  EXPECT_EQ(pool_.holders(), std::vector<JobContextHolder*>{&caller_});

  EXPECT_FALSE(pool_.give_back(*lent, caller_)) << "it has nothing in flight";
  EXPECT_FALSE(pool_.is_short_of(kThreads));
  EXPECT_TRUE(pool_.holders().empty());
}

TEST_F(ContextPoolTest, OnlyAFewAreLentAtATime) {
  for (unsigned i = 0; i < ContextPool::kLentMax; ++i) {
    EXPECT_TRUE(pool_.may_lend());
    add();
    pool_.lend(caller_, nullptr);
  }
  EXPECT_FALSE(pool_.may_lend());
}

TEST_F(ContextPoolTest, WhatIsGivenBackWithAReadInFlightIsOrphanedUntilAThreadAdoptsIt) {
  JobContext* const orphaned = orphan();
  EXPECT_TRUE(has_orphaned_);
  EXPECT_EQ(pool_.orphaned_count(), 1u);
  EXPECT_TRUE(pool_.is_short_of(kThreads));

  EXPECT_EQ(pool_.adopt(), orphaned);

  EXPECT_FALSE(has_orphaned_);
  EXPECT_FALSE(pool_.is_short_of(kThreads));
  EXPECT_EQ(pool_.adopt(), nullptr);
  orphaned->reap(1);
}

TEST_F(ContextPoolTest, AnOrphanedContextIsMissingUntilItIsDrainedBesideAnother) {
  JobContext* const orphaned = orphan();

  EXPECT_EQ(pool_.take_orphaned(), orphaned);
  EXPECT_FALSE(has_orphaned_);
  EXPECT_TRUE(pool_.is_short_of(kThreads));

  orphaned->reap(1);
  pool_.put_drained(*orphaned);
  EXPECT_FALSE(pool_.is_short_of(kThreads));
  EXPECT_EQ(pool_.take_idle(nullptr), orphaned);
}

}  // namespace
}  // namespace penstock::core
