// SPDX-License-Identifier: Apache-2.0

// The system starts no more threads than a test lets it: requests that need one say so, and others go on without.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>

#include "fakes/batch_fixture.h"
#include "fakes/gpu_file_fixture.h"
#include "fakes/waiting.h"
#include "frontend/transfer.h"

namespace {

std::atomic<int> threads_left{INT_MAX};

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PENSTOCK_THREADS_ARE_REFUSED 1
// Stands in place of the C library's. A sanitizer has its own.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                              void* argument) noexcept {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  return threads_left-- > 0 ? real(thread, attributes, body, argument) : EAGAIN;
}
#endif

namespace penstock::core {
namespace {

class FewThreads {
 public:
  explicit FewThreads(int count) { threads_left = count; }
  ~FewThreads() { threads_left = INT_MAX; }
};

class ThreadShortage : public BatchTest {
 protected:
  void SetUp() override {
#ifndef PENSTOCK_THREADS_ARE_REFUSED
    GTEST_SKIP() << "a sanitizer starts threads itself";
#endif
  }
  std::vector<QueueEvent> events_ = std::vector<QueueEvent>(8);
};

TEST_F(ThreadShortage, ABatchWithoutAThreadReportsItsEntriesAsFailed) {
  ThreadedQueue& batch = open_batch(4);
  char* const memory = device_memory(4 * kLarge);
  {
    const FewThreads none(0);
    ASSERT_TRUE(batch.submit(entries(3, Op::write, memory)).ok());
    ASSERT_EQ(batch.reap(events_, 3, std::nullopt), 3u);
    for (unsigned i = 0; i < 3; ++i) {
      EXPECT_TRUE(events_[i].outcome.status.is(Code::out_of_memory)) << describe(events_[i].outcome.status);
    }
  }
  ASSERT_TRUE(batch.submit(entries(3, Op::write, memory)).ok());
  ASSERT_EQ(batch.reap(events_, 3, std::nullopt), 3u);
  for (unsigned i = 0; i < 3; ++i) EXPECT_TRUE(events_[i].outcome.status.ok()) << describe(events_[i].outcome.status);
}

TEST_F(ThreadShortage, ADeadlineThatNobodyWouldWatchRefusesItsEntry) {
  ThreadedQueue& batch = open_batch(4);
  char* const memory = device_memory(4 * kLarge);
  std::vector<QueuedRequest> all = entries(1, Op::write, memory);
  all[0].deadline = std::chrono::steady_clock::now() + std::chrono::hours(1);
  {
    const FewThreads one(1);  // It moves requests, and none is left that watches.
    ASSERT_TRUE(batch.submit(all).ok());
    ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);
    EXPECT_TRUE(events_[0].outcome.status.is(Code::out_of_memory)) << describe(events_[0].outcome.status);
    ASSERT_TRUE(batch.submit(entries(1, Op::write, memory)).ok());
    ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);
    EXPECT_TRUE(events_[0].outcome.status.ok()) << "one thread is enough without a deadline";
  }
  ASSERT_TRUE(batch.submit(all).ok());
  ASSERT_EQ(batch.reap(events_, 1, std::nullopt), 1u);
  EXPECT_TRUE(events_[0].outcome.status.ok()) << describe(events_[0].outcome.status);
}

TEST_F(ThreadShortage, ALargeRequestIsMovedByItsCallerAlone) {
  const FewThreads none(0);
  char* const memory = device_memory(32 * kLarge);
  storage_->content[5] = 'x';
  const Outcome outcome = transfer(*session_, {Op::read, file_, memory, 32 * kLarge, 0, 0});
  EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
  EXPECT_EQ(outcome.report.bytes, 32 * kLarge);
  EXPECT_EQ(memory[5], 'x');
}

TEST_F(ThreadShortage, StripesOfOtherMembersThanTheFirstFail) {
  const auto striped = std::make_shared<Striped>();
  striped->layout = {.size = 4 * StripeLayout::kStripeUnit, .stripe_bytes = StripeLayout::kStripeUnit, .members = 2};
  const UniqueFd beside = storage_->open_user_fd(O_RDWR);
  striped->files = {file_, session_->register_file(beside.get()).value()};
  striped->names = {"/one", "/two"};
  const FewThreads none(0);
  const Outcome outcome = transfer_striped(*session_, frontends_->executor(), *striped,
                                           {.op = Op::read, .base = device_memory(kLarge), .size = 4 << 16});
  EXPECT_TRUE(outcome.status.is(Code::out_of_memory)) << describe(outcome.status);
  EXPECT_NE(describe(outcome.status).find("member 1 of the striped object, /two"), std::string::npos);
  EXPECT_EQ(outcome.report.bytes, StripeLayout::kStripeUnit) << "the caller moved the first member's";
}

class GpuFileThreadShortage : public GpuFileFixture {};

TEST_F(GpuFileThreadShortage, AFileForKernelsNeedsAllThreadsThatAnswer) {
#ifndef PENSTOCK_THREADS_ARE_REFUSED
  GTEST_SKIP() << "a sanitizer starts threads itself";
#endif
  {
    const FewThreads two(2);
    EXPECT_TRUE(files().open(file_, {.ring = {.threads = 4}}).status().is(Code::out_of_memory));
  }
  open({.ring = {.threads = 4}});
  EXPECT_EQ(version_of(7, 9), 0);
}

TEST_F(GpuFileThreadShortage, ALeaseIsTakenAgainOnceThereIsAThreadForIt) {
#ifndef PENSTOCK_THREADS_ARE_REFUSED
  GTEST_SKIP() << "a sanitizer starts threads itself";
#endif
  again_after_ = std::chrono::nanoseconds(0);
  open();
  if (!facts().is_leased) GTEST_SKIP() << "not here: " << reason_name(facts().reason);
  {
    const FewThreads none(0);
    write(open_as(O_WRONLY | O_TRUNC).get(), 1);
    for (unsigned i = 0; i < 300; ++i) ASSERT_EQ(version_of(i, 9), 1);
    EXPECT_FALSE(facts().is_leased);
  }
  EXPECT_TRUE(wait_until([&] { return version_of(7, 9) == 1 && facts().is_leased; }));
}

}  // namespace
}  // namespace penstock::core
