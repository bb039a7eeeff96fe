// SPDX-License-Identifier: Apache-2.0

// Host memory before a drive: a put copies its chunks into it, and a thread writes them to the drive behind the
// caller's back; a get looks into it first. Both are stores (kv/store.h), the one in host memory on a drive that is
// none (SessionDrive::Role::memory), so that memory is bounded, chunks are checked and GPUs are served as on a drive.
//
// A chunk that waits for the drive is pinned in memory, so it is never lost to make room. If all of the memory waits, a
// put is `full`: the drive is too slow for so many puts, and no caller is kept waiting for it.
//
// Any thread. No lock is held while bytes move.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/mutex.h"
#include "kv/store.h"

namespace penstock::kv {

struct TierState {
  std::uint64_t puts[kOutcomes] = {}, gets[kOutcomes] = {};  // By the tier's users.
  std::uint64_t put_bytes = 0, got_bytes = 0;
  std::uint64_t waiting = 0;  // Chunks in memory that are not on the drive yet.
  std::uint64_t written = 0;  // Chunks that were brought to the drive.
  std::uint64_t written_bytes = 0;
  double written_seconds = 0;                 // The time that the drive took for them.
  std::uint64_t not_written[kOutcomes] = {};  // Chunks that the drive did not take, by outcome.
  std::uint64_t got_from_memory = 0;          // Chunks that memory had,
  std::uint64_t got_from_drive = 0;           // and those that only the drive had.
  core::Status failure{};                     // The latest failure of a write to the drive.
};

class HostTier {
 public:
  enum class Writing : std::uint8_t { by_thread, by_caller };

  // The stores outlive it, have one name, and only this puts into them; the slab of memory's drive is in memory.
  // by_caller: nothing is written but by write_some(), for tests that want to know when.
  HostTier(Store& memory, Store& drive, Writing writing = Writing::by_thread);
  // Does not write the chunks that still wait for the drive: call flush() before.
  ~HostTier();
  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;

  // The same as Store's. A chunk that only the drive has is put into memory, too, when it was got.
  void put(std::span<Request> requests) EXCLUDES(mutex_);
  void get(std::span<Request> requests) EXCLUDES(mutex_);
  bool contains(const Name& key) const { return memory_.contains(key) || drive_.contains(key); }
  std::uint64_t size_of(const Name& key) const;
  std::optional<double> seconds_to_get(std::span<const Name> keys) const;
  // Waits until no thread copies the chunk between memory and drive.
  bool erase(const Name& key) EXCLUDES(mutex_);
  bool touch(const Name& key);
  bool pin(const Name& key) EXCLUDES(mutex_);
  bool unpin(const Name& key) EXCLUDES(mutex_);

  // Returns when what was put before has been brought to the drive, or could not be.
  void flush() EXCLUDES(mutex_);
  // flush(), and the drive's commit().
  core::Status commit() EXCLUDES(mutex_);

  TierState state() const EXCLUDES(mutex_);

  // Brings some of what waits to the drive; false where nothing does. One thread at a time.
  bool write_some() EXCLUDES(mutex_);

 private:
  // A chunk that is pinned in memory for one reason or both: it is not on the drive yet, or it is to stay though the
  // drive could not take it.
  struct Held {
    float cost = 0;
    std::uint32_t pins = 0;   // By users.
    bool is_waiting = false;  // It is in queue_, or under way.
  };
  struct Batch;

  void run();
  // False where the tier ends. was_busy: there may be more at once.
  bool wait_for_work(bool was_busy) EXCLUDES(mutex_);
  bool is_hurried() const REQUIRES(mutex_);
  // Takes over a pin of memory_'s that the chunk has.
  void hold(const Request& request) REQUIRES(mutex_);
  void enqueue(const Name& key, Held& held) REQUIRES(mutex_);
  void release(const Name& key) REQUIRES(mutex_);
  bool take(Batch& batch) EXCLUDES(mutex_);
  void move(Batch& batch) EXCLUDES(mutex_);
  void finish(const Request& request) REQUIRES(mutex_);
  std::vector<Name> begin_promotion(std::span<const Request> requests) EXCLUDES(mutex_);
  void get_from_drive(std::span<Request> requests) EXCLUDES(mutex_);
  void promote(std::span<const Request> got, std::span<const Name> keys) EXCLUDES(mutex_);
  bool is_busy(const Name& key) const REQUIRES(mutex_) { return writing_.count(key) > 0 || promoting_.count(key) > 0; }

  Store& memory_;
  Store& drive_;
  Pace drive_pace_;  // With keeping in memory what was got.

  mutable core::Mutex mutex_;
  core::ConditionVariable changed_;
  core::ConditionVariable work_;  // thread_ waits for it.
  std::unordered_map<Name, Held, NameHash> held_ GUARDED_BY(mutex_);
  std::deque<Name> queue_ GUARDED_BY(mutex_);
  std::unordered_set<Name, NameHash> writing_ GUARDED_BY(mutex_);    // To the drive.
  std::unordered_set<Name, NameHash> promoting_ GUARDED_BY(mutex_);  // From the drive into memory.
  std::uint64_t enqueued_ GUARDED_BY(mutex_) = 0;                    // Chunks that were ever put into queue_,
  std::uint64_t served_ GUARDED_BY(mutex_) = 0;                      // and those of them that were written, or refused.
  std::uint64_t queued_pages_ GUARDED_BY(mutex_) = 0;                // Pages that came since it was looked at.
  std::uint32_t flushes_ GUARDED_BY(mutex_) = 0;                     // Calls that wait for the queue's end.
  bool is_asleep_ GUARDED_BY(mutex_) = false;                        // thread_ sleeps without a time limit.
  bool is_ending_ GUARDED_BY(mutex_) = false;
  TierState state_ GUARDED_BY(mutex_);

  std::thread thread_;  // Last: it uses the others.
};

}  // namespace penstock::kv
