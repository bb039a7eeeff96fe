// SPDX-License-Identifier: Apache-2.0

#include "base/mutex.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace penstock::core {
namespace {

using namespace std::chrono_literals;

bool is_free(Mutex& mutex) {
  const auto try_it = [&] {
    const bool got = mutex.try_lock();
    if (got) mutex.unlock();
    return got;
  };
  return std::async(std::launch::async, try_it).get();
}

TEST(MutexTest, ALockEndsWithItsBlock) {
  Mutex mutex;
  {
    const MutexLock lock(mutex);
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(MutexTest, AnUnlockHasTheMutexAgainAtItsEndAlsoWhereItsBlockThrows) {
  Mutex mutex;
  const MutexLock lock(mutex);
  try {
    const MutexUnlock unlock(mutex);
    EXPECT_TRUE(is_free(mutex));
    throw 1;
  } catch (int) {
  }
  EXPECT_FALSE(is_free(mutex));
}

TEST(MutexTest, ALockThatWasTriedForIsGivenBackOnce) {
  Mutex mutex;
  if (!mutex.try_lock()) FAIL();
  { const MutexLock lock(mutex, std::adopt_lock); }
  EXPECT_TRUE(is_free(mutex));
}

TEST(ConditionVariableTest, WhoWaitsLetsGoOfTheMutexAndHasItAgain) {
  Mutex mutex;
  ConditionVariable changed;
  bool is_there = false;
  std::thread other;
  {
    const MutexLock lock(mutex);
    other = std::thread([&] {
      const MutexLock lock_of_other(mutex);
      is_there = true;
      changed.notify_all();
    });
    while (!is_there) changed.wait(mutex);
    EXPECT_FALSE(is_free(mutex));
  }
  other.join();
  EXPECT_TRUE(is_free(mutex));
}

TEST(ConditionVariableTest, AWaitUntilATimeThatIsOverSaysSo) {
  Mutex mutex;
  ConditionVariable changed;
  const MutexLock lock(mutex);
  EXPECT_FALSE(changed.wait_until(mutex, std::chrono::steady_clock::now() - 1ms));
  EXPECT_FALSE(is_free(mutex));
}

TEST(SharedMutexTest, ReadersShareAndAWriterDoesNot) {
  SharedMutex mutex;
  const auto read = [&] { const ReaderLock lock(mutex); };
  const auto write = [&] { const WriterLock lock(mutex); };
  std::future<void> writer;
  {
    const ReaderLock lock(mutex);
    std::async(std::launch::async, read).get();
    writer = std::async(std::launch::async, write);
    EXPECT_EQ(writer.wait_for(20ms), std::future_status::timeout);
  }
  writer.get();
}

}  // namespace
}  // namespace penstock::core
