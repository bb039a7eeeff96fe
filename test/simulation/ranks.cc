// SPDX-License-Identifier: Apache-2.0

#include "simulation/ranks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "kv/follower.h"
#include "kv/session_volume.h"
#include "kv/store.h"
#include "kv/test_chunks.h"
#include "simulation/baton.h"
#include "simulation/drive.h"
#include "simulation/ends.h"
#include "simulation/requests.h"

namespace penstock::simulation {
namespace {

using kv::Outcome;
using Role = kv::SessionVolume::Role;

constexpr std::uint64_t kExtent = 64 << 10, kSlab = 24 * kExtent, kKeys = 16;  // All of them fit.
constexpr std::uint64_t kVersions = 4096;
constexpr unsigned kTriesMax = 50, kWritingThreads = 2, kProcessesMax = 4;

constexpr kv::Library kLibrary = {penstock_file_register, penstock_file_close,   penstock_file_sync,
                                  penstock_transfer,      penstock_queue_open,   penstock_queue_close,
                                  penstock_queue_submit,  penstock_queue_reap,   penstock_crc32c_vector,
                                  penstock_path_count,    penstock_report_bytes, penstock_file_advise};

std::size_t bytes_of_key(std::uint64_t key) { return 1000 + 777 * key; }

// What all processes know, in memory that they share. The one that runs has it to itself between two points.
struct Known {
  std::uint64_t key_of[kVersions];  // By version; a version is told before it is put.
  std::uint64_t versions;
  std::uint64_t committed[kKeys];  // It must survive; 0: nothing must.
  pid_t writer;                    // Of the lease; 0: nobody is.
  pid_t openers[kProcessesMax];    // Who is about to take the lease, and may have it already.
  std::uint64_t leases;            // How often somebody wanted it, took it, or let it go.
  std::uint64_t done, faults[kFaults], trace;

  bool is_free() const {
    return writer == 0 && std::all_of(std::begin(openers), std::end(openers), [](pid_t one) { return one == 0; });
  }
  void forget(pid_t process) {
    std::replace(std::begin(openers), std::end(openers), process, 0);
    if (writer == process) writer = 0, ++leases;
  }
};

// One process.
class Rank {
 public:
  Rank(Known& known, Random& random) : known_(known), random_(random) {}
  // Ends by itself, if it is not ended before.
  void run();
  // A session, and some lives of a store.
  void work();
  // Of one that has no faults: each chunk that was committed is there.
  void check(Role role);

 private:
  core::Result<std::unique_ptr<kv::SessionVolume>> open(Role role);
  bool become_writer();
  void write(unsigned number, std::uint64_t seed);
  void put(std::uint64_t key);
  void commit(unsigned number);
  void follow(Random& random);
  Outcome get(kv::StoreView& store, std::uint64_t key);
  void leave();
  bool has_all_committed(Role role);

  Known& known_;
  Random& random_;
  penstock_session* session_ = nullptr;
  std::unique_ptr<kv::SessionVolume> volume_;
  std::unique_ptr<kv::Store> store_;
  std::uint64_t live_[kKeys] = {};  // Of the writer, what it put itself; 0: it does not know.
  std::uint64_t failed_commits_ = 0;
  std::uint64_t last_ = 0;  // The version that was got last.
};

core::Result<std::unique_ptr<kv::SessionVolume>> Rank::open(Role role) {
  const bool is_direct = random_.one_in(2);
  const auto open_it = [&] {
    return kv::SessionVolume::open(kLibrary, session_, drive().folder(0), role, kSlab, is_direct);
  };
  if (role == Role::reader) return open_it();
  ++known_.leases;
  pid_t& opener = *std::find(std::begin(known_.openers), std::end(known_.openers), 0);
  opener = ::getpid();
  auto volume = open_it();
  opener = 0;
  return volume;
}

// The lease is free once its process has ended, however it did.
bool Rank::become_writer() {
  const bool was_free = known_.is_free();
  const std::uint64_t leases = known_.leases + 1;
  auto volume = open(Role::writer);
  const bool is_free = was_free && known_.is_free() && leases == known_.leases;
  if (!volume.ok()) {
    if (volume.status().is_errno(EWOULDBLOCK) && is_free) scheduler().fail("a lease outlives its process");
    return false;
  }
  if (known_.writer != 0) scheduler().fail("a store has two writers");
  known_.writer = ::getpid();
  ++known_.leases;
  volume_ = std::move(*volume);
  auto store = kv::Store::open(*volume_, {kv::name_of(0), kSlab, kExtent});
  if (!store.ok()) return leave(), false;
  store_ = std::move(*store);
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    if (known_.committed[key] != 0 && !store_->contains(kv::name_of(key)))
      scheduler().fail("a new writer does not find a committed chunk");
  }
  return true;
}

void Rank::leave() {
  store_.reset();
  if (volume_ == nullptr) return;
  volume_.reset();
  known_.writer = 0;
  ++known_.leases;
}

Outcome Rank::get(kv::StoreView& store, std::uint64_t key) {
  std::vector<std::byte> memory(bytes_of_key(key));
  const std::uint64_t live = live_[key];
  const Outcome outcome = kv::get(store, key, memory);
  ++known_.done;
  if (outcome != Outcome::done) return outcome;
  const auto is = [&](std::uint64_t version) {
    return known_.key_of[version] == key && memory == kv::content_of(key, version, memory.size());
  };
  for (last_ = known_.versions; last_ > 0 && !is(last_);) --last_;
  if (last_ == 0) scheduler().fail("a process gets bytes that nobody put");
  if (&store == store_.get() && live != 0 && last_ != live)
    scheduler().fail("a writer gets another chunk than it put last");
  return outcome;
}

void Rank::put(std::uint64_t key) {
  if (known_.versions + 1 == kVersions) return;
  const std::uint64_t version = ++known_.versions;
  known_.key_of[version] = key;
  const std::uint64_t before = failed_commits_;
  const Outcome outcome = kv::put(*store_, key, kv::content_of(key, version, bytes_of_key(key)));
  if (outcome == Outcome::done) live_[key] = before == failed_commits_ ? version : 0;
  ++known_.done;
  if (store_->state().counts.evicted > 0) scheduler().fail("a chunk is evicted from a store with room");
}

void Rank::commit(unsigned number) {
  std::uint64_t before[kKeys];
  std::copy(std::begin(live_), std::end(live_), before);
  const bool is_ok = store_->commit().ok();
  failed_commits_ += is_ok ? 0 : 1;
  // What a flush that failed may have lost is dropped, whoever put it.
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    const bool is_own = key % kWritingThreads == number;
    const bool is_there = store_->contains(kv::name_of(key));
    if (!is_there) live_[key] = 0;
    else if (is_ok && is_own && before[key] != 0) known_.committed[key] = before[key];
  }
}

// A thread of the writer, with keys of its own.
void Rank::write(unsigned number, std::uint64_t seed) {
  Random random(seed);
  for (std::uint64_t left = random.between(5, 60); left > 0; --left) {
    ends().exit_if_due();
    const std::uint64_t key = number + kWritingThreads * random.below(kKeys / kWritingThreads);
    switch (random.below(8)) {
      case 0:
        live_[key] = known_.committed[key] = 0;
        store_->erase(kv::name_of(key));
        break;
      case 1:
      case 2: commit(number); break;
      case 3:
      case 4:
      case 5: put(key); break;
      default: get(*store_, key);
    }
  }
}

void Rank::follow(Random& random) {
  const auto volume = open(Role::reader);
  if (!volume.ok()) return;  // There is no store yet, or a fault.
  kv::Follower follower(**volume, kv::name_of(0));
  for (std::uint64_t left = random.between(5, 40); left > 0; --left) {
    ends().exit_if_due();
    if (random.one_in(3)) (void)follower.refresh();
    get(follower, random.below(kKeys));
  }
}

void Rank::run() {
  static const Tally none;
  if (!random_.one_in(4)) ends().draw(random_, none);
  work();
}

void Rank::work() {
  if (random_.one_in(2)) draw_weather(random_);
  if (open_session(random_, &session_).code != 0) scheduler().fail("no session opens");
  for (std::uint64_t left = random_.between(1, 4); left > 0; --left) {
    if (!become_writer()) {
      follow(random_);
      continue;
    }
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kWritingThreads; ++i)
      threads.emplace_back([this, i, seed = random_.next()] { write(i, seed); });
    for (std::thread& thread : threads) thread.join();
    if (random_.one_in(2)) (void)store_->close();
    leave();
    std::fill(std::begin(live_), std::end(live_), 0);
  }
  penstock_session_close(session_);
}

// What the volume has, as its writer or another process sees it; null: not this time.
std::unique_ptr<kv::StoreView> view_of(kv::Volume& volume, Role role) {
  if (role == Role::writer) {
    auto store = kv::Store::open(volume, {kv::name_of(0), kSlab, kExtent});
    return store.ok() ? std::move(*store) : nullptr;
  }
  auto follower = std::make_unique<kv::Follower>(volume, kv::name_of(0));
  return follower->refresh().ok() ? std::move(follower) : nullptr;
}

bool Rank::has_all_committed(Role role) {
  const auto volume = open(role);
  if (volume.status().is_errno(EWOULDBLOCK)) scheduler().fail("a lease outlives its process");
  const std::unique_ptr<kv::StoreView> store = volume.ok() ? view_of(**volume, role) : nullptr;
  const auto is_nothing = [](std::uint64_t version) { return version == 0; };
  if (store == nullptr) return std::all_of(std::begin(known_.committed), std::end(known_.committed), is_nothing);
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    if (known_.committed[key] != 0 && get(*store, key) != Outcome::done) return false;
    if (known_.committed[key] != 0 && last_ != known_.committed[key])
      scheduler().fail("another chunk is there than was committed");
  }
  return true;
}

// A ring may be broken for one session.
void Rank::check(Role role) {
  for (unsigned tries = 1;; ++tries) {
    if (tries > kTriesMax) scheduler().fail("a committed chunk is gone after its writer ended");
    if (open_session(random_, &session_).code != 0) scheduler().fail("no session opens");
    const bool has_all = has_all_committed(role);
    penstock_session_close(session_);
    if (has_all) return;
  }
}

class Ranks {
 public:
  std::uint64_t run();

 private:
  void start(const std::function<void(Rank&)>& body);
  void check();

  Known& known_ =
      *static_cast<Known*>(::mmap(nullptr, sizeof(Known), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  Conductor conductor_;
};

void Ranks::start(const std::function<void(Rank&)>& body) {
  conductor_.start([this, &body](Random& random) {
    ends().begin([this] {
      for (std::size_t i = 0; i < kFaults; ++i) known_.faults[i] += disk().faults[i];
      known_.trace = known_.trace * 31 + scheduler().trace();
    });
    body(*new Rank(known_, random));
  });
}

// Beside the others, who do not run meanwhile.
void Ranks::check() {
  const Role role = known_.is_free() && scheduler().random().one_in(2) ? Role::writer : Role::reader;
  start([role](Rank& rank) { rank.check(role); });
  while (conductor_.go_on(conductor_.alive() - 1)) continue;
}

std::uint64_t Ranks::run() {
  Random& random = scheduler().random();
  drive().make(1, {});
  std::uint64_t to_come = random.between(2, 6);
  while (to_come > 0 || conductor_.alive() > 0) {
    if (to_come > 0 && (conductor_.alive() == 0 || (conductor_.alive() < 3 && random.one_in(16)))) {
      --to_come;
      start([](Rank& rank) { rank.run(); });
    }
    const std::size_t next = random.below(conductor_.alive());
    const pid_t pid = conductor_.pid(next);
    if (conductor_.go_on(next)) continue;
    known_.forget(pid);
    if (known_.versions > 0) check();
    scheduler().point(Call::program, known_.trace);
  }
  for (std::size_t i = 0; i < kFaults; ++i) disk().faults[i] += known_.faults[i];
  return known_.done;
}

// One process, which is this one, before power is lost and after.
class PoweredRank {
 public:
  std::uint64_t run();

 private:
  void lose_power();

  Known known_{}, at_loss_{};
  Rank rank_{known_, scheduler().random()};
};

// What was committed behind the loss does not count: the drive never had it.
void PoweredRank::lose_power() {
  drive().lose_power();
  disk().weather = {};
  drive().start_anew();
  at_loss_.done = known_.done;
  known_ = at_loss_;
  known_.forget(::getpid());
  rank_.check(scheduler().random().one_in(2) ? Role::writer : Role::reader);
}

std::uint64_t PoweredRank::run() {
  Random& random = scheduler().random();
  drive().make(1, {});
  drive().lose_power_at(random.between(1, random.one_in(2) ? 60 : 1000), [this] { at_loss_ = known_; });
  rank_.work();
  lose_power();
  rank_.work();
  disk().weather = {};
  drive().start_anew();
  if (known_.versions > 0) rank_.check(Role::writer);
  return known_.done;
}

}  // namespace

std::uint64_t run_rank_with_power_loss() { return std::make_unique<PoweredRank>()->run(); }

std::uint64_t run_ranks() { return std::make_unique<Ranks>()->run(); }

}  // namespace penstock::simulation
