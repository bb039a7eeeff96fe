// SPDX-License-Identifier: Apache-2.0

// A tier of host memory in front of a drive: a put copies its chunks into it, and a thread writes them to the drive in
// the background; a get reads from it first. Both tiers are stores (kv/store.h); the one in host memory uses a volume
// in memory (SessionVolume::Role::memory), so that its size is bounded, chunks are checked and GPUs are served as on a
// drive.
//
// A chunk that waits for the drive is pinned in memory, so it is never evicted. If all of the memory waits, a put
// returns `full`: the drive is too slow for so many puts, and callers do not wait for it.
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
  std::uint64_t written = 0;  // Chunks that were written to the drive.
  std::uint64_t written_bytes = 0;
  double written_seconds = 0;                 // The time that the drive took for them.
  std::uint64_t not_written[kOutcomes] = {};  // Chunks that the drive refused, by outcome.
  std::uint64_t got_from_memory = 0;          // Gets from memory,
  std::uint64_t got_from_drive = 0;           // and gets from the drive.
  core::Status failure{};                     // The latest failure of a write to the drive.
};

class TieredStore final : public Reader, public Writer {
 public:
  enum class Writing : std::uint8_t { by_thread, by_caller };

  // The stores must outlive it and have the same name; nothing else may put into them; `memory` must be on a volume in
  // memory. by_caller: only write_some() writes, for tests that decide when.
  TieredStore(Store& memory, Store& drive, Writing writing = Writing::by_thread);
  // Drops the chunks that still wait for the drive: call flush() before.
  ~TieredStore() override;
  TieredStore(const TieredStore&) = delete;
  TieredStore& operator=(const TieredStore&) = delete;

  void put(std::span<Request* const> requests) override EXCLUDES(mutex_);
  // Also puts a chunk that only the drive has into memory.
  void get(std::span<Request* const> requests) override EXCLUDES(mutex_);
  bool contains(const Name& key) const override { return memory_.contains(key) || drive_.contains(key); }
  std::uint64_t size_of(const Name& key) const override;
  std::optional<double> seconds_to_get(std::span<const Name> keys) const override;
  // Waits until no thread copies the chunk between memory and drive.
  bool erase(const Name& key) override EXCLUDES(mutex_);
  bool touch(const Name& key) override;
  bool pin(const Name& key) override EXCLUDES(mutex_);
  bool unpin(const Name& key) override EXCLUDES(mutex_);

  // Returns when all earlier puts were written to the drive, or refused by it.
  void flush() EXCLUDES(mutex_);
  // flush(), then the drive's commit().
  core::Status commit() override EXCLUDES(mutex_);

  TierState state() const EXCLUDES(mutex_);

  // Writes some of the waiting chunks to the drive; returns false if none waits. One thread at a time.
  bool write_some() EXCLUDES(mutex_);

 private:
  // A chunk that is pinned in memory: it is not on the drive yet, or users pinned it and the drive refused it.
  struct Held {
    float cost = 0;
    std::uint32_t pins = 0;   // By users.
    bool is_waiting = false;  // It is in queue_, or being written.
  };
  struct Batch;

  void run();
  // Returns false when the tier ends. was_busy: more work may be there already.
  bool wait_for_work(bool was_busy) EXCLUDES(mutex_);
  bool is_hurried() const REQUIRES(mutex_);
  // Takes over a pin that the chunk has in memory_.
  void hold(const Request& request) REQUIRES(mutex_);
  void enqueue(const Name& key, Held& held) REQUIRES(mutex_);
  void release(const Name& key) REQUIRES(mutex_);
  bool take(Batch& batch) EXCLUDES(mutex_);
  void write_to_drive(Batch& batch) EXCLUDES(mutex_);
  void on_written(const Request& request) REQUIRES(mutex_);
  std::vector<Name> begin_promotion(std::span<Request* const> requests) EXCLUDES(mutex_);
  void get_from_drive(std::span<Request* const> requests) EXCLUDES(mutex_);
  void promote(std::span<Request* const> got, std::span<const Name> keys) EXCLUDES(mutex_);
  bool is_busy(const Name& key) const REQUIRES(mutex_) { return writing_.count(key) > 0 || promoting_.count(key) > 0; }

  Store& memory_;
  Store& drive_;
  Pace drive_pace_;  // Includes the time to keep the chunks in memory.

  mutable core::Mutex mutex_;
  core::ConditionVariable changed_;
  core::ConditionVariable work_;  // Wakes thread_.
  std::unordered_map<Name, Held, NameHash> held_ GUARDED_BY(mutex_);
  std::deque<Name> queue_ GUARDED_BY(mutex_);
  std::unordered_set<Name, NameHash> writing_ GUARDED_BY(mutex_);    // Being written to the drive.
  std::unordered_set<Name, NameHash> promoting_ GUARDED_BY(mutex_);  // Being copied from the drive into memory.
  std::uint64_t enqueued_ GUARDED_BY(mutex_) = 0;                    // Number of chunks ever put into queue_,
  std::uint64_t served_ GUARDED_BY(mutex_) = 0;                      // and those of them that were written, or refused.
  std::uint64_t queued_pages_ GUARDED_BY(mutex_) = 0;                // Pages queued since thread_ last checked.
  std::uint32_t flushes_ GUARDED_BY(mutex_) = 0;                     // Number of flush() calls that wait.
  bool is_asleep_ GUARDED_BY(mutex_) = false;                        // thread_ sleeps without a time limit.
  bool is_ending_ GUARDED_BY(mutex_) = false;
  TierState state_ GUARDED_BY(mutex_);

  std::thread thread_;  // The last member: it uses the others.
};

}  // namespace penstock::kv
