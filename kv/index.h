// SPDX-License-Identifier: Apache-2.0

// The in-memory index of a store: its chunks, their places, and which one to evict for room. Pure. Its owner's lock
// guards it.
//
// Each chunk has a priority, and the lowest is evicted first. By recent use it is the number of the last use. By cost
// it is GreedyDual-Size (Cao and Irani, USENIX 1997): the cost of computing the chunk again, per byte, plus the
// priority of the last evicted chunk, so that expensive chunks stay longer, but not for ever.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kv/format.h"
#include "kv/slab.h"

namespace penstock::kv {

enum class Eviction : std::uint8_t { recent_use, cost };

struct Entry {
  Chunk chunk;
  double priority = 0;
  std::uint32_t users = 0;  // Transfers of it in flight.
  std::uint32_t pins = 0;
  bool is_ready = false;  // The payload is in its slot.

  bool may_go() const { return is_ready && users == 0 && pins == 0; }
};

class Index {
 public:
  Index(std::uint64_t bytes, std::uint64_t extent_bytes, Eviction eviction)
      : eviction_(eviction), slab_(bytes, extent_bytes) {}

  Entry* find(const Name& key);
  const Entry* find(const Name& key) const { return const_cast<Index*>(this)->find(key); }

  // Makes room and finds a slot for a new chunk, which fits into an extent: calls `gone` for each evicted chunk.
  // Returns false, without evicting, if evictable chunks would not make room. The new entry is neither ready nor in
  // use.
  bool add(Chunk& chunk, const std::function<void(const Chunk&)>& gone);
  // Adds a chunk from a journal, ready; returns false if its slot is invalid or taken. Call it for the last used chunk
  // last.
  bool restore(const Chunk& chunk);
  void remove(const Name& key);
  // Removes it from lookups while its slot is still in use; call give_back() when the last user has ended.
  void make_tombstone(const Name& key);
  void give_back(std::uint64_t slot_offset);

  // Changes users, pins or is_ready by `change`, and updates whether it may be evicted.
  template <typename Change>
  void update(Entry& entry, const Change& change) {
    leave_queue(entry);
    change(entry);
    if (entry.may_go()) join_queue(entry);
  }
  void touch(Entry& entry);

  std::size_t count() const { return entries_.size(); }
  const Slab& slab() const { return slab_; }
  // Returns all entries, in no order.
  std::vector<Entry> entries() const;

 private:
  using Place = std::pair<double, std::uint64_t>;  // Priority and slot.
  using Queue = std::set<Place>;

  void join_queue(Entry& entry);
  void leave_queue(Entry& entry);
  void insert(const Chunk& chunk, bool is_ready);
  bool make_room(std::uint64_t slot_bytes, const std::function<void(const Chunk&)>& gone);
  void evict(std::uint64_t slot_offset, const std::function<void(const Chunk&)>& gone);
  // The used slots of an extent if all of them may be evicted; else empty.
  std::vector<std::uint64_t> all_of(std::uint64_t extent) const;
  double priority_of(const Chunk& chunk);

  const Eviction eviction_;
  Slab slab_;
  std::unordered_map<Name, Entry, NameHash> entries_;
  std::unordered_map<std::uint64_t, Name> by_slot_;             // Of entries_.
  std::map<std::uint64_t, std::set<std::uint64_t>> in_extent_;  // The slots of each extent, with tombstones.
  std::map<std::uint64_t, Queue> queues_;                       // Evictable chunks, by slot_bytes.
  double last_gone_ = 0;
  double uses_ = 0;
};

}  // namespace penstock::kv
