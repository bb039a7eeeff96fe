// SPDX-License-Identifier: Apache-2.0

// The kernels' side of reads in a simulator: one thread runs at a time, and gives way at its accesses to what is
// shared, to whom a seed chooses; the time is the seed's, too, and the GPU's clock goes on by steps. Kernels read out
// of pages and by a ring, with a cache or without, while somebody changes the file as under a lease: the generation is
// raised, the time passes, each word is written by itself, and the generation counts anew. Every second seed's kernels
// share their looks.
//
// PENSTOCK_RACES says how many seeds there are.
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "fakes/host_kernels.h"

namespace penstock {
namespace {

using gpu::Long;
using gpu::Word;

// Threads that run one at a time.
class Turns {
 public:
  explicit Turns(unsigned seed) : random_(seed) {}
  void add(std::function<void()> body) {
    const unsigned number = alive_++;
    is_alive_.push_back(true);
    threads_.emplace_back([this, number, body = std::move(body)] {
      own_ = number;
      wait_for_turn();
      body();
      const std::lock_guard lock(mutex_);
      is_alive_[number] = false;
      if (--alive_ > 0) choose();
      changed_.notify_all();
    });
  }
  void run() {
    current_ = this;
    gpu::detail::give_way = [] { current_->give_way(); };
    gpu::detail::scheduled_time = [] { return current_->clock(); };
    {
      const std::lock_guard lock(mutex_);
      choose();
    }
    changed_.notify_all();
    for (std::thread& each : threads_) each.join();
    gpu::detail::give_way = nullptr;
    gpu::detail::scheduled_time = nullptr;
  }
  // Most steps take nanoseconds; some threads are not run for long.
  void give_way() {
    {
      const std::lock_guard lock(mutex_);
      const auto chance = random_() % 4096;
      time_ += chance < 1 ? 3'000'000 : chance < 12 ? 200'000 : chance % 128;
      if (random_() % 8 != 0) return;
      choose();
    }
    changed_.notify_all();
    wait_for_turn();
  }
  Long time() const { return time_; }
  Long clock() const { return time_ / granularity_ * granularity_; }
  unsigned draw(unsigned end) { return static_cast<unsigned>(random_() % end); }
  void set_granularity(Long nanoseconds) { granularity_ = nanoseconds; }

 private:
  void choose() {
    do turn_ = static_cast<unsigned>(random_() % is_alive_.size());
    while (!is_alive_[turn_]);
  }
  void wait_for_turn() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return turn_ == own_; });
  }

  static inline Turns* current_ = nullptr;
  static inline thread_local unsigned own_ = 0;
  std::minstd_rand random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
  std::vector<bool> is_alive_;
  unsigned alive_ = 0, turn_ = ~0u;
  Long time_ = Long{1} << 50, granularity_ = 1;
};

constexpr Long kBlock = 64, kBlocks = 40, kWords = kBlocks * kBlock / 8;
constexpr Word kSlots = 4;

// A file of a few blocks, and what kernels share with the library.
struct World {
  World(unsigned seed, Long waits) : turns(seed), wait_ns(waits) {
    constexpr Long kSteps[] = {1, 1024, 1'000'000, 9'000'000};
    shares_looks = seed / 8 % 2 == 1;
    // Where each group looks by itself, the clock may even stand still.
    turns.set_granularity(!shares_looks && seed % 4 == 3 ? Long{1} << 50 : kSteps[seed % 4]);
    has_cache = seed / 4 % 2 == 1;
    for (Long i = 0; i < kWords; ++i) content[i] = pages[i] = i << 32;
    standing.generation = 1;
    for (Word i = 0; i < gpu::kControls; ++i) controls[i] = {gpu::Error::none, 1};
    // Every second extent of two blocks is registered.
    for (Long i = 0; i < kBlocks / 2; ++i) {
      extents.push_back(i % 2 == 0 ? reinterpret_cast<Long>(&pages[i * 2 * kBlock / 8]) : 0);
    }
  }
  gpu::File file() {
    gpu::Layout layout = {};
    layout.size = kWords * 8;
    layout.timeout_ns = 10'000'000'000;
    layout.extents = extents.data();
    layout.controls = controls.data();
    layout.slots = slots;
    layout.requests = requests;
    layout.staging = reinterpret_cast<const unsigned char*>(staging);
    layout.owners = owners;
    layout.counts = counts.data();
    layout.standing = &standing;
    layout.looks = 1;
    layout.extent_shift = 7;
    layout.slot_count = kSlots;
    layout.slot_bytes = kBlock;
    if (has_cache) layout.sets = &set;
    layout.frames = reinterpret_cast<unsigned char*>(frames);
    layout.set_count = has_cache ? 1 : 0;
    return gpu::File(layout);
  }

  // The library's thread, and one that changes the file: both give way within.
  void answer_until_over() {
    Word answered[kSlots] = {};
    while (readers_left > 0) {
      turns.give_way();
      for (Word i = 0; i < kSlots; ++i) {
        const auto number = static_cast<Word>(requests[i].what >> 32) & gpu::kNumberMask;
        if (number == answered[i]) continue;
        answered[i] = number;
        const Long first = (requests[i].place >> 8) / 8, count = (requests[i].what & 0xffffffff) / 8;
        for (Long k = 0; k < count; ++k) {
          staging[i * kBlock / 8 + k] = content[first + k];
          turns.give_way();
        }
        slots[i].answer = gpu::answer(number, gpu::Error::none, static_cast<Word>(count * 8));
      }
    }
  }
  void change_a_few_times() {
    for (Word version = 1; version < 6 && readers_left > 0; ++version) {
      for (const Long until = turns.time() + turns.draw(1'000'000); turns.time() < until;) turns.give_way();
      for (gpu::Control& each : controls) ++each.generation;
      for (const Long until = turns.time() + wait_ns; turns.time() < until;) turns.give_way();
      newest = version;
      for (Long i = 0; i < kWords; ++i) {
        gpu::detail::store(reinterpret_cast<Word*>(&content[i]), version);
        if (i % 16 == 0) turns.give_way();
      }
      oldest = version;
      for (const Long until = turns.time() + turns.draw(1'000'000); turns.time() < until;) turns.give_way();
      pages = content;
      standing.generation = controls[0].generation;
    }
  }
  void read(unsigned times) {
    const gpu::File opened = file();
    for (unsigned i = 0; i < times; ++i) {
      const Long count = turns.draw(12) + 1, first = turns.draw(static_cast<unsigned>(kWords - count));
      Long words[12] = {};
      const Word from = oldest;
      const gpu::Result result = opened.read(gpu::Thread(), first * 8, count * 8, words);
      bool is_bad = result.error != gpu::Error::none || result.bytes != count * 8;
      for (Long k = 0; k < count; ++k) {
        const auto version = static_cast<Word>(words[k]);
        is_bad |= words[k] >> 32 != first + k || version < from || version > newest;
      }
      wrong += is_bad;
    }
    --readers_left;
  }

  Turns turns;
  const Long wait_ns;
  bool has_cache = false, shares_looks = false;
  Word oldest = 0, newest = 0;
  unsigned readers_left = 3, wrong = 0;
  std::vector<Long> content = std::vector<Long>(kWords), pages = content;  // Pages stay what they were, as cut ones do.
  std::vector<Long> extents;
  gpu::Standing standing = {};
  std::vector<gpu::Control> controls = std::vector<gpu::Control>(gpu::kControls);
  std::vector<gpu::Counts> counts = std::vector<gpu::Counts>(gpu::kCountParts);
  gpu::Slot slots[kSlots] = {};
  gpu::Request requests[kSlots] = {};
  Word owners[kSlots] = {};
  gpu::CacheSet set = {};
  alignas(16) Long staging[kSlots * kBlock / 8] = {};
  alignas(16) Long frames[gpu::kWays * kBlock / 8] = {};
};

// How many reads were wrong.
unsigned simulate(unsigned seed, Long wait_ns) {
  const auto world = std::make_unique<World>(seed, wait_ns);
  gpu::detail::shares_looks = world->shares_looks;
  for (unsigned i = 0; i < world->readers_left; ++i) world->turns.add([&] { world->read(100); });
  world->turns.add([&] { world->answer_until_over(); });
  world->turns.add([&] { world->change_a_few_times(); });
  world->turns.run();
  gpu::detail::shares_looks = false;
  return world->wrong;
}

unsigned seeds() {
  const char* const text = std::getenv("PENSTOCK_RACES");
  return text == nullptr ? 32 : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

TEST(GpuSimulation, NoReadIsWrongWithAnySeed) {
  for (unsigned seed = 1; seed <= seeds(); ++seed)
    ASSERT_EQ(simulate(seed, gpu::kChangeWaitsNs), 0u) << "seed " << seed;
}

// The control: looks that are shared, and hold longer than a change waits.
TEST(GpuSimulation, AChangeThatDoesNotWaitIsSeenWhereLooksAreSharedAlone) {
  unsigned wrong[2] = {};
  for (unsigned seed = 1; seed <= 80; ++seed) wrong[seed / 8 % 2] += simulate(seed, 0);
  EXPECT_EQ(wrong[0], 0u);
  EXPECT_GT(wrong[1], 0u);
}

}  // namespace
}  // namespace penstock
