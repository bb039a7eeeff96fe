// SPDX-License-Identifier: Apache-2.0

// Small programs with a fault each, which some seed must find, and the same ones without it, which no seed may blame.
#include "simulation/scheduler.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "simulation/heap.h"
#include "simulation/steady_heap.h"

namespace penstock::simulation {
namespace {

using namespace std::chrono_literals;

struct Ended {
  int status = -1;  // 1: the simulation found that it cannot go on.
  std::uint64_t trace = 0;
  Nanoseconds took = 0;
};

// In a child: what it prints goes nowhere.
Ended run(void (*program)(), std::uint64_t seed) {
  auto* const shared =
      static_cast<Ended*>(::mmap(nullptr, sizeof(Ended), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(STDERR_FILENO);
    scheduler().begin(seed, false);
    const Nanoseconds began = scheduler().now();
    program();
    *shared = {0, scheduler().trace(), scheduler().now() - began};
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  Ended ended = *shared;
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ::munmap(shared, sizeof(Ended));
  return ended;
}

// The first seed that does not end well.
std::optional<std::uint64_t> seed_that_finds(void (*program)(), std::uint64_t seeds = 200) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    if (run(program, seed).status != 0) return seed;
  }
  return std::nullopt;
}

void require(bool holds) {
  if (!holds) scheduler().fail("a condition does not hold");
}

template <bool kFaulty>
void wait_for_a_flag() {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_set = false;
  std::thread waiter([&] {
    if (kFaulty) {
      {
        const std::lock_guard lock(mutex);
        if (is_set) return;
      }
      std::unique_lock lock(mutex);  // The flag may have been set in between.
      changed.wait(lock);
    } else {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return is_set; });
    }
  });
  {
    const std::lock_guard lock(mutex);
    is_set = true;
  }
  changed.notify_one();
  waiter.join();
}

template <bool kFaulty>
void lock_two() {
  std::mutex first, second;
  std::thread other([&] {
    const std::lock_guard one(kFaulty ? second : first);
    const std::lock_guard two(kFaulty ? first : second);
  });
  {
    const std::lock_guard one(first);
    const std::lock_guard two(second);
  }
  other.join();
}

template <bool kFaulty>
void count_together() {
  std::mutex mutex;
  int count = 0;
  const auto add = [&] {
    std::unique_lock lock(mutex);
    const int seen = count;
    if (kFaulty) lock.unlock();
    if (kFaulty) lock.lock();
    count = seen + 1;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(add);
  for (std::thread& thread : threads) thread.join();
  require(count == 3);
}

template <bool kFaulty>
void wait_for_a_word() {
  std::atomic<std::uint32_t> word{0};
  std::thread setter([&] {
    word.store(1);
    if (!kFaulty) word.notify_one();
  });
  word.wait(0);
  setter.join();
}

// Whether the wake-up comes before the deadline is the seed's to decide.
template <bool kFaulty>
void wait_with_a_limit() {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_set = false;
  std::thread setter([&] {
    std::this_thread::sleep_for(1ms);
    const std::lock_guard lock(mutex);
    is_set = true;
    changed.notify_one();
  });
  std::unique_lock lock(mutex);
  const bool came = changed.wait_for(lock, 1ms, [&] { return is_set; });
  if (kFaulty) require(came);
  lock.unlock();
  setter.join();
}

template <bool kFaulty>
void read_and_write() {
  std::shared_mutex mutex;
  int first = 0, second = 0;
  std::thread writer([&] {
    for (int i = 1; i < 5; ++i) {
      std::unique_lock lock(mutex, std::defer_lock);
      if (!kFaulty) lock.lock();
      first = i;
      std::this_thread::yield();
      second = i;
    }
  });
  for (int i = 0; i < 5; ++i) {
    const std::shared_lock lock(mutex);
    require(first == second);
  }
  writer.join();
}

struct Program {
  const char* name;
  void (*faulty)();
  void (*right)();
};

const Program kPrograms[] = {
    {"a lost wake-up", wait_for_a_flag<true>, wait_for_a_flag<false>},
    {"two locks in two orders", lock_two<true>, lock_two<false>},
    {"a count that is read and written apart", count_together<true>, count_together<false>},
    {"a word that nobody tells of", wait_for_a_word<true>, wait_for_a_word<false>},
    {"a deadline beside a wake-up", wait_with_a_limit<true>, wait_with_a_limit<false>},
    {"a writer without the lock", read_and_write<true>, read_and_write<false>},
};

TEST(SchedulerTest, WhatIsWrongIsFoundBySomeSeedAndWhatIsRightByNone) {
  for (const Program& program : kPrograms) {
    EXPECT_TRUE(seed_that_finds(program.faulty).has_value()) << program.name;
    EXPECT_FALSE(seed_that_finds(program.right).has_value()) << program.name;
  }
}

TEST(SchedulerTest, ASeedFindsAFaultAgain) {
  const std::optional<std::uint64_t> seed = seed_that_finds(lock_two<true>);
  ASSERT_TRUE(seed.has_value());
  for (int i = 0; i < 5; ++i) EXPECT_NE(run(lock_two<true>, *seed).status, 0);
}

TEST(SchedulerTest, OneSeedGivesOneTraceAndOthersGiveOthers) {
  std::vector<std::uint64_t> traces;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Ended first = run(count_together<false>, seed), second = run(count_together<false>, seed);
    EXPECT_EQ(first.trace, second.trace) << seed;
    traces.push_back(first.trace);
  }
  std::sort(traces.begin(), traces.end());
  EXPECT_EQ(std::unique(traces.begin(), traces.end()), traces.end());
}

TEST(SchedulerTest, TimePassesWithoutWaiting) {
  const Ended ended = run([] { std::this_thread::sleep_for(1000h); }, 1);

  EXPECT_EQ(ended.status, 0);
  EXPECT_GE(ended.took, Nanoseconds{3'600'000'000'000'000});
}

// A thread's own destructors run while it has the baton.
TEST(SchedulerTest, WhatAThreadDoesAtItsEndIsPartOfTheRun) {
  const auto program = [] {
    static std::mutex mutex;
    static int alive = 0;
    struct Counted {
      Counted() { change(1); }
      ~Counted() { change(-1); }
      static void change(int by) {
        const std::lock_guard lock(mutex);
        alive += by;
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([] {
        thread_local Counted counted;
        std::this_thread::yield();
      });
    }
    for (std::thread& thread : threads) thread.join();
    require(alive == 0);
  };
  EXPECT_FALSE(seed_that_finds(program, 50).has_value());
}

// ---- The guarded heap ----------------------------------------------------------------------------------------------

constexpr std::size_t kSize = 100;       // Between its end and that of its pages are 12 bytes.
using Memory = volatile unsigned char*;  // The compiler is not to know what becomes of it.

Memory allocated() {
  begin_heap(true);
  return static_cast<unsigned char*>(std::malloc(kSize));
}
void touch(Memory memory) { *memory = 1; }
void give_back(Memory memory) {
  void (*volatile release)(void*) = &std::free;
  release(const_cast<unsigned char*>(memory));
}

TEST(GuardedHeapTest, WhoeverUsesWhatIsNotHisEndsThereAndThen) {
  struct Case {
    const char* what;
    void (*program)();
    bool is_found;
  };
  const Case cases[] = {
      {"all of it is used",
       [] {
         Memory memory = allocated();
         touch(memory), touch(memory + kSize - 1), give_back(memory);
       },
       false},
      {"written once it was freed",
       [] {
         Memory memory = allocated();
         give_back(memory), touch(memory);
       },
       true},
      {"read once it was freed",
       [] {
         Memory memory = allocated();
         give_back(memory), (void)*memory;
       },
       true},
      {"freed twice",
       [] {
         Memory memory = allocated();
         give_back(memory), give_back(memory);
       },
       true},
      {"written behind its end",
       [] {
         Memory memory = allocated();
         touch(memory + kSize), give_back(memory);
       },
       true},
      {"read behind its pages", [] { (void)allocated()[kSize + 12]; }, true},
  };
  for (const auto& [what, program, is_found] : cases) EXPECT_EQ(run(program, 1).status != 0, is_found) << what;
}

// ---- Both heaps -----------------------------------------------------------------------------------------------------

template <bool kGuarded>
void use_memory_of_every_kind() {
  void* const before = std::malloc(kSize);
  begin_heap(kGuarded);
  std::free(before);
  for (const std::size_t alignment : {16u, 64u, 4096u, 1u << 16}) {
    auto* const memory = static_cast<unsigned char*>(std::aligned_alloc(alignment, 3 * alignment));
    require(reinterpret_cast<std::uintptr_t>(memory) % alignment == 0);
    memory[0] = 1, memory[3 * alignment - 1] = 2;
    auto* const larger = static_cast<unsigned char*>(std::realloc(memory, 4 * alignment));
    require(larger[0] == 1 && larger[3 * alignment - 1] == 2);
    std::free(larger);
  }
  auto* const used = static_cast<unsigned char*>(std::malloc(kSize * kSize));
  std::memset(used, 1, kSize * kSize);
  std::free(used);
  auto* const zeroed = static_cast<unsigned char*>(std::calloc(kSize, kSize));
  require(std::count(zeroed, zeroed + kSize * kSize, 0) == kSize * kSize);
  std::free(zeroed);
  require(std::malloc(SIZE_MAX / 2) == nullptr);
}

TEST(HeapTest, MemoryOfEveryKindCanBeUsed) {
  EXPECT_EQ(run(&use_memory_of_every_kind<true>, 1).status, 0);
  EXPECT_EQ(run(&use_memory_of_every_kind<false>, 1).status, 0);
}

// What the C library had allocated before decides nothing, so that its version does not.
TEST(HeapTest, TheFirstAllocationOfARunIsAlwaysAtTheSameAddress) {
  static std::size_t before = 0;
  const auto program = [] {
    void* const left = std::malloc(before);
    begin_heap(false);
    void* const first = std::malloc(kSize);
    require(first == SteadyHeap::begin_of_all() && left != nullptr);
    std::free(first);
    require(std::malloc(kSize) == first);
  };
  for (before = 1; before < 1000; before += 100) EXPECT_EQ(run(program, 1).status, 0);
}

}  // namespace
}  // namespace penstock::simulation
