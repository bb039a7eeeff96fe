// SPDX-License-Identifier: Apache-2.0

#include "session/buffer_table.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kNever = 0;    // The entry was never used, so a search ends here.
constexpr std::uint64_t kRemoved = 1;  // The entry was used, so a search continues. No buffer lies at address 1.
constexpr std::size_t kFirstCapacity = 256;

std::size_t hash(std::uint64_t base) { return static_cast<std::size_t>((base >> 4) * 0x9e3779b97f4a7c15u >> 20); }

}  // namespace

// A small seqlock: the version is odd while a writer is inside. Fields are atomics, so that a reader beside a writer
// reads old or new values, and retries.
struct BufferTable::Entry {
  std::atomic<std::uint32_t> version{0};
  std::atomic<std::uint64_t> base{kNever};
  std::atomic<std::uint64_t> size{0};
  std::atomic<MemoryKind> kind{MemoryKind::host};
  std::atomic<Device*> device{nullptr};
  std::atomic<std::uint64_t> allocation_base{0};
  std::atomic<std::uint64_t> allocation_size{0};
  std::atomic<std::uint64_t> mapped{0};

  void write(std::uint64_t key, const Buffer& buffer) {
    version.fetch_add(1, std::memory_order_acq_rel);
    size.store(buffer.size, std::memory_order_release);
    kind.store(buffer.memory.kind, std::memory_order_release);
    device.store(buffer.memory.device, std::memory_order_release);
    allocation_base.store(buffer.memory.base, std::memory_order_release);
    allocation_size.store(buffer.memory.size, std::memory_order_release);
    mapped.store(buffer.memory.mapped, std::memory_order_release);
    base.store(key, std::memory_order_release);
    version.fetch_add(1, std::memory_order_acq_rel);
  }

  void read(Buffer& buffer) const {
    std::uint32_t before;
    do {
      before = version.load(std::memory_order_acquire);
      buffer.base = base.load(std::memory_order_acquire);
      buffer.size = size.load(std::memory_order_acquire);
      buffer.memory = {kind.load(std::memory_order_acquire), device.load(std::memory_order_acquire),
                       allocation_base.load(std::memory_order_acquire), allocation_size.load(std::memory_order_acquire),
                       mapped.load(std::memory_order_acquire)};
    } while ((before & 1) != 0 || version.load(std::memory_order_acquire) != before);
  }
};

struct BufferTable::Table {
  explicit Table(std::size_t capacity) : entries(capacity) {}
  std::vector<Entry> entries;  // A power of two; at most half of them are in use, counting removed ones.
  std::size_t used = 0;
};

BufferTable::BufferTable() {
  tables_.push_back(std::make_unique<Table>(kFirstCapacity));
  current_.store(tables_.back().get(), std::memory_order_release);
}

BufferTable::~BufferTable() = default;

// The entry of the base, or the free one for it.
BufferTable::Entry* BufferTable::place_for(Table& table, std::uint64_t base) const {
  const std::size_t mask = table.entries.size() - 1;
  Entry* removed = nullptr;
  for (std::size_t i = hash(base) & mask;; i = (i + 1) & mask) {
    Entry& entry = table.entries[i];
    const std::uint64_t key = entry.base.load(std::memory_order_acquire);
    if (key == base) return &entry;
    if (key == kRemoved && removed == nullptr) removed = &entry;
    if (key == kNever) return removed != nullptr ? removed : &entry;
  }
}

std::optional<Buffer> BufferTable::find(std::uint64_t base) const {
  if (base <= kRemoved) return std::nullopt;
  std::optional<Buffer> found(std::in_place);
  std::uint32_t before;
  do {
    before = rebuilds_.load(std::memory_order_acquire);
    place_for(*current_.load(std::memory_order_acquire), base)->read(*found);
  } while ((before & 1) != 0 || rebuilds_.load(std::memory_order_acquire) != before);
  if (found->base != base) found.reset();
  return found;
}

Status BufferTable::insert(const Buffer& buffer) {
  if (buffer.base <= kRemoved) return failure(Code::invalid_argument, "register the buffer");
  const MutexLock lock(mutex_);
  if (current_.load()->used >= current_.load()->entries.size() / 2) make_room();
  Table& table = *current_.load();
  Entry* entry = place_for(table, buffer.base);
  const std::uint64_t key = entry->base.load();
  if (key == buffer.base) return failure(Code::already_registered, "register the buffer");
  if (key == kNever) ++table.used;
  entry->write(buffer.base, buffer);
  changes_.fetch_add(1, std::memory_order_release);
  return success();
}

Result<Buffer> BufferTable::remove(std::uint64_t base) {
  const MutexLock lock(mutex_);
  if (base <= kRemoved) return failure(Code::invalid_argument, "deregister the buffer");
  Entry* entry = place_for(*current_.load(), base);
  if (entry->base.load() != base) return failure(Code::not_registered, "deregister the buffer");
  Buffer removed;
  entry->read(removed);
  entry->write(kRemoved, {});
  changes_.fetch_add(1, std::memory_order_release);
  return removed;
}

// Doubles the table, or sweeps out removed entries if most are removed. So endless registering and deregistering stays
// within one table, and all old tables together are no larger than the current one.
void BufferTable::make_room() {
  Table* table = current_.load();
  std::vector<Buffer> live;
  for (const Entry& entry : table->entries) {
    Buffer buffer;
    entry.read(buffer);
    if (buffer.base > kRemoved) live.push_back(buffer);
  }
  const bool sweep = live.size() * 4 <= table->entries.size();
  if (sweep) {
    rebuilds_.fetch_add(1, std::memory_order_acq_rel);
    for (Entry& entry : table->entries) entry.write(kNever, {});
  } else {
    tables_.push_back(std::make_unique<Table>(table->entries.size() * 2));
    table = tables_.back().get();
  }
  for (const Buffer& buffer : live) place_for(*table, buffer.base)->write(buffer.base, buffer);
  table->used = live.size();
  if (sweep) {
    rebuilds_.fetch_add(1, std::memory_order_acq_rel);
  } else {
    current_.store(table, std::memory_order_release);
  }
}

}  // namespace penstock::core
