// SPDX-License-Identifier: Apache-2.0

// A store of chunks on one drive, as its one writer has it. A chunk is some bytes under a key; a get brings them back
// as they were put, or it is a miss: never other bytes, whatever was torn, lost, cut or overwritten.
//
// put() writes a chunk into a free slot of the slab, for which others may have to go first; commit() makes earlier puts
// durable, and only then tells the journal. A reader believes neither journal nor index, but the header before the
// payload and the payload's checksum. A crash leaves the committed chunks, less those that were overwritten since.
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
#include "kv/drive.h"
#include "kv/format.h"
#include "kv/index.h"
#include "kv/reader.h"

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
  Name name{};  // Names the data of the chunks. A slab of another name is not looked into.
  std::uint64_t bytes = 0;
  std::uint64_t extent_bytes = std::uint64_t{64} << 20;
  Eviction eviction = Eviction::recent_use;
};

class Store final : public Reader {
 public:
  // A chunk where it lies, in a store whose slab is in memory. No other chunk gets its slot before this goes, also if
  // it is erased meanwhile.
  class Mapping {
   public:
    Mapping(Mapping&& other) noexcept
        : store_(std::exchange(other.store_, nullptr)), chunk_(other.chunk_), is_damaged_(other.is_damaged_) {}
    Mapping& operator=(Mapping&&) = delete;
    ~Mapping() {
      if (store_ != nullptr) store_->unmap(*this);
    }
    std::span<const std::byte> payload() const;
    std::uint32_t crc() const { return chunk_.crc; }  // From the put.
    void mark_damaged() { is_damaged_ = true; }       // Then the store drops it.

   private:
    friend class Store;
    Mapping(Store* store, const Chunk& chunk) : store_(store), chunk_(chunk) {}

    Store* store_;
    Chunk chunk_;
    bool is_damaged_ = false;
  };

  // Opens the store with the chunks that the journal tells of, and writes the journal anew. The drive outlives the
  // store, and has no other writer.
  static core::Result<std::unique_ptr<Store>> open(Drive& drive, const StoreSettings& settings);

  void put(std::span<Request> requests) EXCLUDES(mutex_);

  // Counts as a get: the chunk goes later. False if there is no such chunk.
  bool touch(const Name& key) EXCLUDES(mutex_);
  bool erase(const Name& key) EXCLUDES(mutex_);
  // A pinned chunk does not make room for others. It takes one unpin() for each pin(). False if there is no such chunk.
  bool pin(const Name& key) EXCLUDES(mutex_);
  bool unpin(const Name& key) EXCLUDES(mutex_);

  // Nothing where there is no such chunk. The store outlives it.
  std::optional<Mapping> map_chunk(const Name& key) EXCLUDES(mutex_);

  // Where it fails, nothing is lost: the next one tries again.
  core::Status commit() EXCLUDES(mutex_, commit_mutex_);
  // Commits, and marks the journal as closed, so that the next writer need not check the slots. No call may follow.
  core::Status close() EXCLUDES(mutex_, commit_mutex_);

  State state() const EXCLUDES(mutex_);

 private:
  Store(Drive& drive, const StoreSettings& settings);
  core::Status load() NO_THREAD_SAFETY_ANALYSIS;
  core::Status drop_mismatches(std::vector<Chunk>& chunks);
  core::Status rewrite_journal(bool is_closed) REQUIRES(commit_mutex_) EXCLUDES(mutex_);
  const Chunk* find(const Name& key) const override REQUIRES(mutex_);
  void begin_get(const Chunk& chunk) override REQUIRES(mutex_);
  void end_get(Request& request) override REQUIRES(mutex_);
  bool reserve(Request& request) REQUIRES(mutex_);
  void write(std::span<Request* const> puts) EXCLUDES(mutex_);
  void finish(const Request& put) REQUIRES(mutex_);
  // The end of a use of the chunk, which is an entry still, or was erased meanwhile: then null.
  Entry* leave(const Chunk& chunk) REQUIRES(mutex_);
  void unmap(const Mapping& mapping) noexcept EXCLUDES(mutex_);
  void evict(Entry& entry) REQUIRES(mutex_);

  const StoreSettings settings_;
  Index index_ GUARDED_BY(mutex_);
  std::unordered_map<std::uint64_t, std::uint32_t> tombstones_ GUARDED_BY(mutex_);  // By slot: how many use it.
  std::vector<Record> records_ GUARDED_BY(mutex_);  // Records that the journal does not have yet, in order.
  std::uint64_t generation_ GUARDED_BY(mutex_) = 0;
  std::uint64_t dropped_at_start_ = 0;

  core::Mutex commit_mutex_;
  std::uint64_t journal_bytes_ GUARDED_BY(commit_mutex_) = 0;
};

}  // namespace penstock::kv
