// SPDX-License-Identifier: Apache-2.0

#include "simulation/chunks.h"

#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "kv/fake_volume.h"
#include "kv/follower.h"
#include "kv/store.h"
#include "kv/test_chunks.h"
#include "simulation/scheduler.h"

namespace penstock::simulation {
namespace {

using kv::Outcome;

constexpr std::uint64_t kExtent = 64 << 10, kSlab = 6 * kExtent;
constexpr std::uint64_t kKeysOfEach = 24;  // More than fit.

std::size_t bytes_of_key(std::uint64_t key) { return key % 5 == 0 ? 30'000 + key : 3000 + 13 * key; }

// Each call takes a while, in which others run.
class SlowVolume final : public kv::Volume {
 public:
  explicit SlowVolume(kv::FakeVolume& volume) : volume_(volume) {}

  void transfer_each(std::span<penstock_request> requests, const Ended& ended) override {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      pass_time();
      volume_.transfer_each(requests.subspan(i, 1), [&](std::size_t, const kv::Moved& moved) {
        pass_time();
        ended(i, moved);
      });
    }
  }
  core::Status sync() override {
    pass_time();
    const core::Status status = volume_.sync();
    pass_time();
    return status;
  }
  core::Status crc32c(std::span<const iovec> pieces, std::span<std::uint32_t> sums) override {
    return volume_.crc32c(pieces, sums);
  }
  core::Result<Journal> read_journal(std::uint64_t offset) override {
    pass_time();
    return volume_.read_journal(offset);
  }
  core::Status write_journal(std::uint64_t offset, std::span<const std::byte> bytes) override {
    pass_time();
    return volume_.write_journal(offset, bytes);
  }
  core::Status replace_journal(std::span<const std::byte> bytes, bool& is_replaced) override {
    pass_time();
    return volume_.replace_journal(bytes, is_replaced);
  }

 private:
  static void pass_time() {
    scheduler().wait(Call::file, nullptr, scheduler().now() + scheduler().random().below(100'000));
  }

  kv::FakeVolume& volume_;
};

class Chunks {
 public:
  Chunks() : inner_(kSlab, scheduler().random().next()), volume_(inner_) { open(); }
  std::uint64_t run();

 private:
  struct Known {
    std::uint64_t version = 0;            // 0: perhaps none.
    std::set<std::uint64_t> after_crash;  // What may be there then.
  };
  // Of one thread, which alone puts and erases its keys.
  struct Owner {
    std::uint64_t number;
    Random random;
    std::map<std::uint64_t, Known> known;
  };

  void open();
  void act(Owner& owner, unsigned rounds);
  void put(Owner& owner, std::uint64_t key);
  void get(Owner& owner, std::uint64_t key);
  void commit(Owner& owner);
  void follow(Random random, unsigned rounds);
  bool was_put(std::uint64_t key, const std::vector<std::byte>& memory) const;
  void lose_power(std::vector<Owner>& owners);

  kv::FakeVolume inner_;
  SlowVolume volume_;
  std::unique_ptr<kv::Store> store_;
  std::uint64_t last_version_ = 0, done_ = 0;
};

void Chunks::open() {
  inner_.faults = {};
  store_ = std::move(*kv::Store::open(volume_, {kv::name_of(0), kSlab, kExtent}));
  if (scheduler().random().one_in(2)) inner_.faults = {0.02, 0.02, 0.1, 0.1, 0.01, 0.01};
}

void Chunks::put(Owner& owner, std::uint64_t key) {
  Known& known = owner.known[key];
  const std::uint64_t version = ++last_version_;
  // It may be there from now on: somebody else's commit makes it durable before this put returns.
  known.after_crash.insert(version);
  if (kv::put(*store_, key, kv::content_of(key, version, bytes_of_key(key))) == Outcome::done) known.version = version;
  ++done_;
}

void Chunks::get(Owner& owner, std::uint64_t key) {
  Known& known = owner.known[key];
  std::vector<std::byte> memory(bytes_of_key(key));
  const Outcome outcome = kv::get(*store_, key, memory);
  ++done_;
  if (outcome != Outcome::done) return;
  const auto is = [&](std::uint64_t version) { return memory == kv::content_of(key, version, memory.size()); };
  if (known.version != 0 ? is(known.version) : std::any_of(known.after_crash.begin(), known.after_crash.end(), is))
    return;
  scheduler().fail("a store returns other bytes than were put last");
}

void Chunks::commit(Owner& owner) {
  if (!store_->commit().ok() || inner_.faults.sync > 0) return;  // After a failed flush nothing is known.
  for (auto& [key, known] : owner.known) {
    if (known.version != 0) known.after_crash = {known.version};
  }
}

void Chunks::act(Owner& owner, unsigned rounds) {
  for (unsigned i = 0; i < rounds; ++i) {
    const std::uint64_t key = owner.number * kKeysOfEach + owner.random.below(kKeysOfEach);
    switch (owner.random.below(12)) {
      case 0: commit(owner); break;
      case 1: store_->erase(kv::name_of(key)); break;
      case 2:
        if (store_->pin(kv::name_of(key)) && !store_->unpin(kv::name_of(key)) && inner_.faults.rot == 0)
          scheduler().fail("a pin was lost");
        break;
      case 3:
      case 4:
      case 5:
      case 6: put(owner, key); break;
      default: get(owner, key);
    }
    if (store_->state().used_bytes > kSlab) scheduler().fail("a store uses more than it has");
  }
}

bool Chunks::was_put(std::uint64_t key, const std::vector<std::byte>& memory) const {
  for (std::uint64_t version = 1; version <= last_version_; ++version) {
    if (std::memcmp(memory.data(), kv::content_of(key, version, 8).data(), 8) == 0)
      return memory == kv::content_of(key, version, memory.size());
  }
  return false;
}

// As another rank, which only reads.
void Chunks::follow(Random random, unsigned rounds) {
  kv::Follower follower(volume_, kv::name_of(0));
  for (unsigned i = 0; i < rounds; ++i) {
    if (random.one_in(3)) (void)follower.refresh();
    const std::uint64_t key = random.below(3 * kKeysOfEach);
    std::vector<std::byte> memory(bytes_of_key(key));
    if (kv::get(follower, key, memory) == Outcome::done && !was_put(key, memory))
      scheduler().fail("another rank gets bytes that nobody put");
    ++done_;
  }
}

void Chunks::lose_power(std::vector<Owner>& owners) {
  if (scheduler().random().one_in(3)) (void)store_->close();
  store_.reset();
  inner_.lose_power();
  open();
  for (Owner& owner : owners) {
    for (auto& [key, known] : owner.known) known.version = 0;
  }
}

std::uint64_t Chunks::run() {
  Random& random = scheduler().random();
  std::vector<Owner> owners;
  for (std::uint64_t i = 0, count = random.between(1, 3); i < count; ++i)
    owners.push_back({i, Random(random.next()), {}});
  for (std::uint64_t lives = random.between(1, 4); lives > 0; --lives) {
    const auto rounds = static_cast<unsigned>(random.between(10, 120));
    std::vector<std::thread> threads;
    for (Owner& owner : owners) threads.emplace_back([this, &owner, rounds] { act(owner, rounds); });
    threads.emplace_back([this, rounds, seed = random.next()] { follow(Random(seed), rounds); });
    for (std::thread& thread : threads) thread.join();
    lose_power(owners);
  }
  if (testing::Test::HasFailure()) scheduler().fail("the volume was used as it must not be");
  return done_;
}

}  // namespace

std::uint64_t run_chunks() { return std::make_unique<Chunks>()->run(); }

}  // namespace penstock::simulation
