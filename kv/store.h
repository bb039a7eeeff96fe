// SPDX-License-Identifier: Apache-2.0

// The writer's side of a store of chunks on one drive. A chunk is some bytes under a key; a get returns them as they
// were put, or is a miss: it never returns other bytes, whatever was torn, lost, truncated or overwritten.
//
// put() writes a chunk into a free slot of the slab, and may evict others first; commit() makes earlier puts durable,
// and only then adds them to the journal. A reader trusts neither journal nor index, but only the header before the
// payload and the payload's checksum. After a crash the committed chunks are left, except those overwritten since.
// Where the drive cannot flush, commit() fails and drops what is not committed, also what is pinned: nobody knows how
// much of it was lost.
//
// Any thread. No lock is held while bytes move.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "kv/format.h"
#include "kv/index.h"
#include "kv/store_view.h"
#include "kv/volume.h"

namespace penstock::kv {

struct State {
  Counts counts;
  std::uint64_t chunks = 0;
  std::uint64_t used_bytes = 0;  // Of slots.
  std::uint64_t bytes = 0;       // The slab's.
  std::uint64_t uncommitted = 0;
  std::uint64_t dropped_at_start = 0;  // Chunks of the journal whose slots had another chunk, or a torn one.
};

struct StoreSettings {
  Name name{};  // Identifies the kind of data. A slab with another name is not read.
  std::uint64_t bytes = 0;
  std::uint64_t extent_bytes = std::uint64_t{64} << 20;
  Eviction eviction = Eviction::recent_use;
};

class Store final : public StoreView, public Writer {
 public:
  // Access to a chunk's bytes in place, if the slab is in memory. While this lives no other chunk gets its slot, even
  // if the chunk is erased.
  class Mapping {
   public:
    Mapping(Mapping&& other) noexcept
        : store_(std::exchange(other.store_, nullptr)), chunk_(other.chunk_), is_damaged_(other.is_damaged_) {}
    Mapping& operator=(Mapping&&) = delete;
    ~Mapping() {
      if (store_ != nullptr) store_->unmap(*this);
    }
    std::span<const std::byte> payload() const;
    std::uint32_t crc() const { return chunk_.crc; }  // The checksum from the put.
    void mark_damaged() { is_damaged_ = true; }       // Makes the store drop the chunk.

   private:
    friend class Store;
    Mapping(Store* store, const Chunk& chunk) : store_(store), chunk_(chunk) {}

    Store* store_;
    Chunk chunk_;
    bool is_damaged_ = false;
  };

  // Opens the store with the chunks of the journal, and rewrites the journal. The volume must outlive the store, and
  // have no other writer.
  static core::Result<std::unique_ptr<Store>> open(Volume& volume, const StoreSettings& settings);

  void put(std::span<Request* const> requests) override EXCLUDES(mutex_);
  bool touch(const Name& key) override EXCLUDES(mutex_);
  bool erase(const Name& key) override EXCLUDES(mutex_);
  bool pin(const Name& key) override EXCLUDES(mutex_);
  bool unpin(const Name& key) override EXCLUDES(mutex_);

  // Nothing if there is no such chunk. The store must outlive the mapping.
  std::optional<Mapping> map_chunk(const Name& key) EXCLUDES(mutex_);

  core::Status commit() override EXCLUDES(mutex_, commit_mutex_);
  // Commits, and marks the journal as closed, so that the next writer need not check the slots. No call may follow.
  core::Status close() EXCLUDES(mutex_, commit_mutex_);

  State state() const EXCLUDES(mutex_);

 private:
  Store(Volume& volume, const StoreSettings& settings);
  core::Status load() NO_THREAD_SAFETY_ANALYSIS;
  void drop_mismatches(std::vector<Chunk>& chunks);
  core::Status rewrite_journal(bool is_closed) REQUIRES(commit_mutex_) EXCLUDES(mutex_);
  const Chunk* find(const Name& key) const override REQUIRES(mutex_);
  void begin_get(const Chunk& chunk) override REQUIRES(mutex_);
  void end_get(Request& request) override REQUIRES(mutex_);
  bool reserve(Request& request) REQUIRES(mutex_);
  void write(std::span<Request* const> puts) EXCLUDES(mutex_);
  void copy_in(const Request& put, std::span<std::byte> slot) const;
  void publish(Request& put) REQUIRES(mutex_);
  void drop_unflushed() REQUIRES(mutex_);
  // Ends a use of the chunk. Returns its entry, or null if it was erased meanwhile.
  Entry* leave(const Chunk& chunk) REQUIRES(mutex_);
  void unmap(const Mapping& mapping) noexcept EXCLUDES(mutex_);
  void evict(Entry& entry) REQUIRES(mutex_);

  const StoreSettings settings_;
  Index index_ GUARDED_BY(mutex_);
  // Erased slots still in use, with the number of users.
  std::unordered_map<std::uint64_t, std::uint32_t> tombstones_ GUARDED_BY(mutex_);
  std::vector<Record> records_ GUARDED_BY(mutex_);  // Records that the journal does not have yet, in order.
  std::uint64_t generation_ GUARDED_BY(mutex_) = 0;
  std::uint64_t unflushed_to_ GUARDED_BY(mutex_) = 0;  // A failed flush may have lost what was put until then.
  std::uint64_t dropped_at_start_ = 0;

  core::Mutex commit_mutex_;
  std::uint64_t journal_bytes_ GUARDED_BY(commit_mutex_) = 0;
  bool is_journal_durable_ GUARDED_BY(commit_mutex_) = true;  // If not, the next commit replaces it again.
};

}  // namespace penstock::kv
