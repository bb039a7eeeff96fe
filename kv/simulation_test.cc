// SPDX-License-Identifier: Apache-2.0

// A store against a plain map, for a long time, while the drive fails and the process dies.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "kv/fake_volume.h"
#include "kv/follower.h"
#include "kv/store.h"
#include "kv/test_chunks.h"

namespace penstock::kv {
namespace {

constexpr std::uint64_t kExtent = 128 << 10;
constexpr std::uint64_t kSlab = 12 * kExtent;
constexpr std::uint64_t kKeys = 150;  // About three times as many as fit.

std::size_t bytes_of_key(std::uint64_t key) {
  return key % 5 == 0 ? 50'000 + key : key % 7 == 0 ? key : 12'000 + 13 * key;
}

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : volume_(kSlab, seed), random_(seed ^ 0xfeed), seed_(seed) { open(); }

  void run(int operations) {
    for (done_ = 0; done_ < operations && !testing::Test::HasFailure(); ++done_) {
      if (done_ % 1000 == 0) change_weather();
      step();
    }
  }
  std::uint64_t hits = 0, losses = 0;

 private:
  struct Known {
    std::uint64_t version = 0;  // 0: no chunk.
    std::set<std::uint64_t>
        after_crash;  // The versions that may be there after a crash: the committed one, and later ones.
    int pins = 0;
  };

  // Sometimes turns all faults off, so that stores fill up.
  void change_weather() {
    volume_.faults = {};
    if (random_() % 2 == 0) volume_.faults = {0.02, 0.02, 0.1, 0.1, 0.01};
  }

  void open() {
    const Faults faults = std::exchange(volume_.faults, {});
    store_ = std::move(Store::open(volume_, {name_of(0), kSlab, kExtent, eviction()}).value());
    volume_.faults = faults;
  }
  Eviction eviction() { return seed_ % 2 == 0 ? Eviction::recent_use : Eviction::cost; }

  void step() {
    const std::uint64_t key = random_() % kKeys;
    switch (random_() % 40) {
      case 0: return commit();
      case 1: return erase(key);
      case 2: return pin(key);
      case 3: return unpin(key);
      case 4: return follow(key);
      case 5:
        if (random_() % 20 == 0) die();
        return;
      default:
        if (random_() % 2 == 0) return look(key);
        return add(key);
    }
  }

  void add(std::uint64_t key) {
    Known& known = known_[key];
    const std::uint64_t version = ++last_version_;
    const bool was_there = store_->contains(name_of(key));
    const Outcome outcome =
        put(*store_, key, content_of(key, version, bytes_of_key(key)), static_cast<float>(key % 9), random_() % 2 == 0);
    EXPECT_EQ(outcome == Outcome::present, was_there);
    if (outcome != Outcome::done) return;
    known.version = version;
    known.after_crash.insert(version);
    EXPECT_LE(store_->state().used_bytes, kSlab);
  }

  void look(std::uint64_t key) {
    Known& known = known_[key];
    const bool was_there = store_->contains(name_of(key));
    if (known.pins > 0) {
      EXPECT_TRUE(was_there) << "a pin was lost";
    }
    std::vector<std::byte> memory(bytes_of_key(key));
    const Outcome outcome = get(*store_, key, memory, random_() % 2 == 0);
    if (outcome == Outcome::done) {
      ++hits;
      if (known.version != 0) {
        EXPECT_EQ(memory, content_of(key, known.version, memory.size())) << at();
      } else {
        expect_one_of(known, key, memory);
      }
    } else if (outcome == Outcome::damaged) {
      known.pins = 0;
      known.version = 0;
    } else {
      EXPECT_TRUE(!was_there || outcome == Outcome::failed) << at();
    }
  }

  // After a crash any version of `after_crash` may be there. The one that was read becomes the known one.
  void expect_one_of(Known& known, std::uint64_t key, const std::vector<std::byte>& memory) {
    for (const std::uint64_t version : known.after_crash) {
      if (memory != content_of(key, version, memory.size())) continue;
      known.version = version;
      return;
    }
    ADD_FAILURE() << "bytes that nobody put" << at();
  }

  void commit() {
    const bool is_committed = store_->commit().ok();
    for (auto& [key, known] : known_) {
      const bool is_there = store_->contains(name_of(key));
      if (is_committed && is_there && known.version != 0) known.after_crash = {known.version};
      if (!is_there) known.pins = 0;  // A failed flush may have lost it, so that it was dropped.
    }
  }

  void erase(std::uint64_t key) {
    store_->erase(name_of(key));
    known_[key].pins = 0;
    // The chunk is gone; after a crash only a committed version may come back.
    EXPECT_FALSE(store_->contains(name_of(key)));
  }

  void pin(std::uint64_t key) { known_[key].pins += store_->pin(name_of(key)) ? 1 : 0; }
  void unpin(std::uint64_t key) {
    const bool had = known_[key].pins > 0;
    EXPECT_EQ(store_->unpin(name_of(key)), had) << at();
    if (had) --known_[key].pins;
  }

  // Gets the key like another process, which sometimes restarts.
  void follow(std::uint64_t key) {
    if (follower_ == nullptr || random_() % 10 == 0) follower_ = std::make_unique<Follower>(volume_, name_of(0));
    if (random_() % 3 != 0) {
      ASSERT_TRUE(follower_->refresh().ok());
    }
    std::vector<std::byte> memory(bytes_of_key(key));
    if (get(*follower_, key, memory) != Outcome::done) return;
    bool is_of_key = false;
    for (std::uint64_t version = 1; version <= last_version_ && !is_of_key; ++version) {
      if (memory.size() >= 8 && std::memcmp(memory.data(), content_of(key, version, 8).data(), 8) != 0) continue;
      is_of_key = memory == content_of(key, version, memory.size());
    }
    EXPECT_TRUE(is_of_key) << at();
  }

  void die() {
    ++losses;
    if (random_() % 3 == 0) {
      ASSERT_TRUE(store_->close().ok() || true);
    }
    store_.reset();
    volume_.lose_power();
    open();
    for (auto& [key, known] : known_) {
      known.version = 0;
      known.pins = 0;
    }
  }

  std::string at() const { return " at operation " + std::to_string(done_) + " of seed " + std::to_string(seed_); }

  FakeVolume volume_;
  std::mt19937_64 random_;
  const std::uint64_t seed_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Follower> follower_;
  std::map<std::uint64_t, Known> known_;
  std::uint64_t last_version_ = 0;
  int done_ = 0;
};

class StoreSimulation : public testing::TestWithParam<std::uint64_t> {};

// PENSTOCK_SIMULATED sets the number of operations, for longer runs.
TEST_P(StoreSimulation, NoWrongChunkNoLostPinNothingBeyondTheCapacity) {
  const char* asked = std::getenv("PENSTOCK_SIMULATED");
  Simulation simulation(GetParam());
  simulation.run(asked == nullptr ? 20'000 : std::atoi(asked));
  EXPECT_GT(simulation.hits, 1000u);
  EXPECT_GT(simulation.losses, 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, StoreSimulation, testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace penstock::kv
