// SPDX-License-Identifier: Apache-2.0

#include "simulation/chunks.h"

#include <cerrno>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "kv/fake_volume.h"
#include "kv/follower.h"
#include "kv/store.h"
#include "kv/test_chunks.h"
#include "simulation/misdirected.h"
#include "simulation/scheduler.h"

namespace penstock::simulation {
namespace {

using kv::Outcome;

constexpr std::uint64_t kExtent = 64 << 10, kSlab = 6 * kExtent;
constexpr std::uint64_t kKeysOfEach = 24;  // More than fit.

std::size_t bytes_of_key(std::uint64_t key) { return key % 5 == 0 ? 30'000 + key : 3000 + 13 * key; }

// Each call takes a while, in which others run. Its process may be killed at any change of the drive.
class SlowVolume final : public kv::Volume {
 public:
  explicit SlowVolume(kv::FakeVolume& volume) : volume_(volume) {}

  // The process is killed at this change, which is torn: no later one reaches the drive. 0: it lives.
  void kill_at(std::uint64_t change) { is_killed_ = false, changes_left_ = change; }
  bool is_killed() const { return is_killed_; }
  Misdirected& misdirected() { return misdirected_; }
  const Misdirected& misdirected() const { return misdirected_; }

  void transfer_each(std::span<penstock_request> requests, const Ended& ended) override {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      pass_time();
      EndedRequest one{i, {killed(), 0}};
      const auto keep = [&](std::span<const EndedRequest> all) { one.moved = all.front().moved; };
      const auto move = [&] { volume_.transfer_each(requests.subspan(i, 1), keep); };
      if (requests[i].op == PENSTOCK_READ) move();
      else change([&] { misdirected_.write_slab(offset_of(requests[i]), bytes_of(requests[i]), move); });
      pass_time();
      ended({&one, 1});
    }
  }
  core::Status sync() override {
    pass_time();
    core::Status status = killed();
    change([&] { status = volume_.sync(); });
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
    core::Status status = killed();
    change([&] { misdirected_.write_journal(offset, [&] { status = volume_.write_journal(offset, bytes); }); });
    return status;
  }
  core::Status replace_journal(std::span<const std::byte> bytes, bool& is_replaced) override {
    pass_time();
    core::Status status = killed();
    const auto replace = [&] { return (status = volume_.replace_journal(bytes, is_replaced)).ok(); };
    change([&] { misdirected_.replace_journal(replace); });
    return status;
  }

 private:
  static std::uint64_t offset_of(const penstock_request& request) {
    return static_cast<std::uint64_t>(request.file_offset);
  }
  static std::uint64_t bytes_of(const penstock_request& request) {
    return request.pieces == nullptr ? request.size : kv::bytes_of({request.pieces, request.piece_count});
  }
  static void pass_time() {
    Random& random = scheduler().random();
    scheduler().wait(Call::file, nullptr, scheduler().now() + random.below(random.one_in(32) ? 5'000'000 : 100'000));
  }

  static core::Status killed() { return core::os_failure(EIO, "change the drive of a process that was killed"); }
  template <typename Make>
  void change(const Make& make) {
    if (is_killed_) return;
    if (changes_left_ == 0 || --changes_left_ > 0) return make();
    is_killed_ = true;
    const kv::Faults faults = std::exchange(volume_.faults, {0, 1, 1, 1, 0.5, 0});
    make();
    volume_.faults = faults;
  }

  kv::FakeVolume& volume_;
  Misdirected misdirected_{volume_};
  std::uint64_t changes_left_ = 0;
  bool is_killed_ = false;
};

class Chunks {
 public:
  Chunks() : inner_(kSlab, scheduler().random().next()), volume_(inner_) { open(); }
  std::uint64_t run();

 private:
  struct Known {
    std::uint64_t version = 0;            // 0: perhaps none.
    std::uint64_t slot = 0;               // Where it lies.
    bool is_of_this_life = false;         // Older ones may have been written over by a put that the journal has not.
    std::uint64_t committed = 0;          // What must survive, unless the store let it go; 0: nothing.
    std::set<std::uint64_t> after_crash;  // What may be there then.
    std::set<std::uint64_t> ever;         // What was put.
  };
  // Of one thread, which alone puts and erases its keys.
  struct Owner {
    std::uint64_t number;
    Random random;
    std::map<std::uint64_t, Known> known;
  };

  void open();
  bool is_hit(std::uint64_t key, std::uint64_t slot) const;
  static Outcome ask(kv::StoreView& store, std::uint64_t key, std::vector<std::byte>& memory, std::uint64_t& slot);
  void act(Owner& owner, unsigned rounds);
  void put(Owner& owner, std::uint64_t key);
  void get(Owner& owner, std::uint64_t key);
  void commit(Owner& owner);
  void follow(Random random, unsigned rounds);
  bool was_put(std::uint64_t key, const std::vector<std::byte>& memory) const;
  void end_life(std::vector<Owner>& owners);
  void expect_committed(kv::StoreView& store, const std::vector<Owner>& owners, bool is_journal_hit,
                        const char* otherwise);

  kv::FakeVolume inner_;
  SlowVolume volume_;
  std::unique_ptr<kv::Store> store_;
  std::unique_ptr<kv::Follower> follower_;  // The store as another process sees it.
  std::uint64_t last_version_ = 0, done_ = 0;
};

void Chunks::open() {
  volume_.kill_at(0);
  inner_.faults = {};
  volume_.misdirected().begin(0);
  store_ = std::move(*kv::Store::open(volume_, {kv::name_of(0), kSlab, kExtent}));
  follower_ = std::make_unique<kv::Follower>(volume_, kv::name_of(0));
  if (scheduler().random().one_in(2)) inner_.faults = {0.02, 0.02, 0.1, 0.1, 0.01, 0.01};
  // What a torn record leaves is told from the next one where that is torn as well.
  if (scheduler().random().one_in(4)) inner_.faults.journal = 0.5;
  if (scheduler().random().one_in(2)) volume_.kill_at(scheduler().random().between(1, 300));
  if (scheduler().random().one_in(3)) volume_.misdirected().begin(scheduler().random().one_in(2) ? 8 : 64);
}

// A misdirected write has hit a chunk that lies there.
bool Chunks::is_hit(std::uint64_t key, std::uint64_t slot) const {
  return volume_.misdirected().has_hit_slab(slot, kv::kHeaderBytes + bytes_of_key(key));
}

void Chunks::put(Owner& owner, std::uint64_t key) {
  Known& known = owner.known[key];
  const std::uint64_t version = ++last_version_;
  // It may be there from now on: somebody else's commit makes it durable before this put returns.
  known.after_crash.insert(version);
  known.ever.insert(version);
  std::vector<std::byte> content = kv::content_of(key, version, bytes_of_key(key));
  const iovec piece{content.data(), content.size()};
  kv::Request request{.key = kv::name_of(key), .pieces = {&piece, 1}};
  store_->put(kv::each_of({&request, 1}));
  if (request.outcome == Outcome::done)
    known.version = version, known.committed = 0, known.slot = request.chunk.slot_offset, known.is_of_this_life = true;
  ++done_;
}

Outcome Chunks::ask(kv::StoreView& store, std::uint64_t key, std::vector<std::byte>& memory, std::uint64_t& slot) {
  const iovec piece{memory.data(), memory.size()};
  kv::Request request{.key = kv::name_of(key), .pieces = {&piece, 1}};
  store.get(kv::each_of({&request, 1}));
  slot = request.chunk.slot_offset;
  return request.outcome;
}

void Chunks::get(Owner& owner, std::uint64_t key) {
  Known& known = owner.known[key];
  std::vector<std::byte> memory(bytes_of_key(key));
  std::uint64_t slot = 0;
  // Once the store has let a damaged chunk go, another one may lie there, and be whole.
  const bool was_hit = is_hit(key, known.slot);
  const std::uint64_t astray = volume_.misdirected().count();
  const Outcome outcome = ask(*store_, key, memory, slot);
  ++done_;
  const bool is_wrong_by_chance = !known.is_of_this_life || inner_.faults.read > 0 || inner_.faults.rot > 0;
  const bool may_be_hit = was_hit || astray != volume_.misdirected().count();
  // A flush that a kill tears may undo writes, also under a get that another thread of the process had begun.
  if (outcome == Outcome::damaged && !is_wrong_by_chance && !may_be_hit && !volume_.is_killed())
    scheduler().fail("a store calls a chunk damaged that nothing has hit");
  if (outcome != Outcome::done) return;
  const auto is = [&](std::uint64_t version) { return memory == kv::content_of(key, version, memory.size()); };
  if (known.version != 0 ? is(known.version) : std::any_of(known.after_crash.begin(), known.after_crash.end(), is))
    return;
  scheduler().fail("a store returns other bytes than were put last");
}

void Chunks::commit(Owner& owner) {
  if (!store_->commit().ok() || inner_.faults.sync > 0) return;  // After a failed flush nothing is known.
  for (auto& [key, known] : owner.known) {
    if (known.version == 0) continue;
    known.after_crash = {known.version};
    known.committed = known.version;
  }
}

void Chunks::act(Owner& owner, unsigned rounds) {
  for (unsigned i = 0; i < rounds && !volume_.is_killed(); ++i) {
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

// As a thread of another rank, which only reads.
void Chunks::follow(Random random, unsigned rounds) {
  for (unsigned i = 0; i < rounds; ++i) {
    if (random.one_in(3)) (void)follower_->refresh();
    const std::uint64_t key = random.below(3 * kKeysOfEach);
    std::vector<std::byte> memory(bytes_of_key(key));
    if (kv::get(*follower_, key, memory) == Outcome::done && !was_put(key, memory))
      scheduler().fail("another rank gets bytes that nobody put");
    ++done_;
  }
}

// The writer ends: it closes the store, is killed, or loses power. A chunk that was committed and still has its slot
// survives, for another process and for the next writer; one whose slot the writer gave to another chunk may be lost.
void Chunks::end_life(std::vector<Owner>& owners) {
  if (!volume_.is_killed() && scheduler().random().one_in(3)) (void)store_->close();
  for (Owner& owner : owners) {
    for (auto& [key, known] : owner.known) {
      if (!store_->contains(kv::name_of(key))) known.committed = 0;
    }
  }
  store_.reset();
  const bool is_journal_hit = volume_.misdirected().has_hit_journal();
  // A follower forgets what it could not read: after such faults another one is asked.
  if (std::exchange(inner_.faults, {}).read > 0) follower_ = std::make_unique<kv::Follower>(volume_, kv::name_of(0));
  if (scheduler().random().one_in(2)) inner_.lose_power();
  if (!follower_->refresh().ok()) scheduler().fail("a journal cannot be read");
  expect_committed(*follower_, owners, is_journal_hit, "another rank misses a committed chunk of a writer that ended");
  open();
  const kv::Faults faults = std::exchange(inner_.faults, {});
  expect_committed(*store_, owners, is_journal_hit, "a committed chunk is gone after its writer ended");
  inner_.faults = faults;
  for (Owner& owner : owners) {
    for (auto& [key, known] : owner.known) {
      known.version = is_journal_hit ? 0 : known.committed;
      known.is_of_this_life = false;
      if (is_journal_hit) known.committed = 0, known.after_crash = known.ever;
    }
  }
}

// Where a misdirected write has hit the journal, chunks may be missing, and an older one of a key be back: records tell
// where chunks lie, not that there are no others. Then a chunk that is served is one that was put.
void Chunks::expect_committed(kv::StoreView& store, const std::vector<Owner>& owners, bool is_journal_hit,
                              const char* otherwise) {
  for (const Owner& owner : owners) {
    for (const auto& [key, known] : owner.known) {
      if (known.committed == 0 && !is_journal_hit) continue;
      std::vector<std::byte> memory(bytes_of_key(key));
      std::uint64_t slot = 0;
      const bool is_there = ask(store, key, memory, slot) == Outcome::done;
      const auto is = [&, key = key](std::uint64_t version) {  // clang 14 captures no binding.
        return memory == kv::content_of(key, version, memory.size());
      };
      const bool is_right =
          is_there && (is_journal_hit ? std::any_of(known.ever.begin(), known.ever.end(), is) : is(known.committed));
      if (!is_right && (is_there || !(is_journal_hit || is_hit(key, known.slot)))) scheduler().fail(otherwise);
    }
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
    for (int i = 0; i < 2; ++i)
      threads.emplace_back([this, rounds, seed = random.next()] { follow(Random(seed), rounds); });
    for (std::thread& thread : threads) thread.join();
    end_life(owners);
  }
  if (testing::Test::HasFailure()) scheduler().fail("the volume was used as it must not be");
  return done_;
}

}  // namespace

std::uint64_t run_chunks() { return std::make_unique<Chunks>()->run(); }

}  // namespace penstock::simulation
