// SPDX-License-Identifier: Apache-2.0

#include "kv/index.h"

#include <algorithm>
#include <cmath>

#include "base/invariant.h"

namespace penstock::kv {

Entry* Index::find(const Name& key) {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

// Costs come from callers and journals. NaN would break the queue's order, and infinity would make all later priorities
// equal: such a cost, or one below 0, counts as unknown.
double Index::priority_of(const Chunk& chunk) {
  if (eviction_ == Eviction::recent_use) return ++uses_;
  const double cost = std::isfinite(chunk.cost) && chunk.cost > 0 ? static_cast<double>(chunk.cost) : 0;
  return last_gone_ + cost / static_cast<double>(chunk.slot_bytes);
}

void Index::join_queue(Entry& entry) {
  queues_[entry.chunk.slot_bytes].insert({entry.priority, entry.chunk.slot_offset});
}

void Index::leave_queue(Entry& entry) {
  queues_[entry.chunk.slot_bytes].erase({entry.priority, entry.chunk.slot_offset});
}

void Index::touch(Entry& entry) {
  update(entry, [&](Entry& touched) { touched.priority = priority_of(touched.chunk); });
}

void Index::insert(const Chunk& chunk, bool is_ready) {
  Entry& entry = entries_[chunk.key];
  PENSTOCK_INVARIANT(entry.chunk.slot_bytes == 0);
  entry.chunk = chunk;
  entry.priority = priority_of(chunk);
  entry.is_ready = is_ready;
  by_slot_[chunk.slot_offset] = chunk.key;
  in_extent_[slab_.extent_of(chunk.slot_offset)].insert(chunk.slot_offset);
  if (entry.may_go()) join_queue(entry);
}

bool Index::add(Chunk& chunk, const std::function<void(const Chunk&)>& gone) {
  chunk.slot_bytes = Slab::slot_bytes_for(chunk.bytes);
  chunk.slot_bytes = std::min(chunk.slot_bytes, slab_.payload_max() + kHeaderBytes);
  std::optional<std::uint64_t> slot_offset = slab_.take(chunk.slot_bytes);
  if (!slot_offset && make_room(chunk.slot_bytes, gone)) slot_offset = slab_.take(chunk.slot_bytes);
  if (!slot_offset) return false;
  chunk.slot_offset = *slot_offset;
  insert(chunk, false);
  return true;
}

bool Index::restore(const Chunk& chunk) {
  if (find(chunk.key) != nullptr || chunk.bytes > chunk.slot_bytes - std::min(chunk.slot_bytes, kHeaderBytes))
    return false;
  if (!slab_.claim(chunk.slot_offset, chunk.slot_bytes)) return false;
  insert(chunk, true);
  return true;
}

void Index::make_tombstone(const Name& key) {
  const auto found = entries_.find(key);
  PENSTOCK_INVARIANT(found != entries_.end());
  leave_queue(found->second);
  const std::uint64_t slot_offset = found->second.chunk.slot_offset;
  by_slot_.erase(slot_offset);
  entries_.erase(found);
}

void Index::remove(const Name& key) {
  const std::uint64_t slot_offset = find(key)->chunk.slot_offset;
  make_tombstone(key);
  give_back(slot_offset);
}

void Index::give_back(std::uint64_t slot_offset) {
  in_extent_[slab_.extent_of(slot_offset)].erase(slot_offset);
  slab_.give_back(slot_offset);
}

void Index::evict(std::uint64_t slot_offset, const std::function<void(const Chunk&)>& gone) {
  const Entry& entry = entries_.at(by_slot_.at(slot_offset));
  last_gone_ = std::max(last_gone_, entry.priority);
  const Chunk chunk = entry.chunk;
  remove(chunk.key);
  gone(chunk);
}

std::vector<std::uint64_t> Index::all_of(std::uint64_t extent) const {
  std::vector<std::uint64_t> slots;
  for (const std::uint64_t slot_offset : in_extent_.at(extent)) {
    const auto found = by_slot_.find(slot_offset);
    if (found == by_slot_.end() || !entries_.at(found->second).may_go()) return {};
    slots.push_back(slot_offset);
  }
  return slots;
}

// Evicts a chunk of the same size class, unless a whole extent of another class is older: classes that are no longer
// put must not keep their extents.
bool Index::make_room(std::uint64_t slot_bytes, const std::function<void(const Chunk&)>& gone) {
  const Queue& own = queues_[slot_bytes];
  std::optional<Place> victim;
  if (!own.empty()) victim = *own.begin();
  std::vector<std::uint64_t> older;
  for (const auto& [bytes, queue] : queues_) {
    if (bytes == slot_bytes || queue.empty()) continue;
    for (const Place& place : queue) {
      if (victim && place.first >= victim->first) break;
      const std::vector<std::uint64_t> slots = all_of(slab_.extent_of(place.second));
      const bool is_older = !slots.empty() && std::all_of(slots.begin(), slots.end(), [&](std::uint64_t slot_offset) {
        return !victim || entries_.at(by_slot_.at(slot_offset)).priority < victim->first;
      });
      if (is_older) older = slots;
      if (is_older || victim) break;  // If nothing else makes room, checks every extent.
    }
    if (!older.empty()) break;
  }
  if (!older.empty()) {
    for (const std::uint64_t slot_offset : older) evict(slot_offset, gone);
    return true;
  }
  if (!victim) return false;
  evict(victim->second, gone);
  return true;
}

std::vector<Entry> Index::entries() const {
  std::vector<Entry> all;
  all.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) all.push_back(entry);
  return all;
}

}  // namespace penstock::kv
