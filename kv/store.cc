// SPDX-License-Identifier: Apache-2.0

#include "kv/store.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "kv/journal.h"

namespace penstock::kv {
namespace {

// The entry, or null if there is none or its payload is not in its slot yet.
template <typename AnyEntry>
AnyEntry* if_ready(AnyEntry* entry) {
  return entry != nullptr && entry->is_ready ? entry : nullptr;
}

using core::MutexLock;
using core::Result;
using core::Status;

constexpr std::size_t kUncommittedMost = std::size_t{1} << 20;
constexpr std::size_t kHeadersAtOnce = 256;

}  // namespace

Store::Store(Volume& volume, const StoreSettings& settings)
    : StoreView(volume, settings.name), settings_(settings),
      index_(settings.bytes, settings.extent_bytes, settings.eviction) {}

Result<std::unique_ptr<Store>> Store::open(Volume& volume, const StoreSettings& settings) {
  if (settings.extent_bytes <= kHeaderBytes || settings.extent_bytes % kSlotAlign != 0 ||
      settings.bytes < settings.extent_bytes) {
    return core::failure(core::Code::invalid_argument, "open a store of at least one extent, in whole pages");
  }
  std::unique_ptr<Store> store(new Store(volume, settings));
  const Status status = store->load();
  if (!status.ok()) return status;
  return store;
}

// No other thread knows of the store yet.
Status Store::load() {
  Result<Volume::Journal> read = volume_.read_journal(0);
  if (!read.ok()) return read.status();
  Replay replay(name_);
  replay.add(read->bytes);
  generation_ = replay.generation();
  std::vector<Chunk> chunks = replay.chunks();
  const std::size_t listed = chunks.size();
  if (!replay.is_closed()) drop_mismatches(chunks);
  // If two chunks claim one place, the newer one is right; the newest is evicted last.
  std::vector<Name> there;
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
    if (index_.restore(*chunk)) there.push_back(chunk->key);
  }
  for (auto key = there.rbegin(); key != there.rend(); ++key) index_.touch(*index_.find(*key));
  dropped_at_start_ = listed - there.size();
  return rewrite_journal(false);
}

// The previous writer did not close the store: chunks that it overwrote after its last journal record are lost. One
// whose header the drive does not give now counts as the journal says: each get looks at the header again.
void Store::drop_mismatches(std::vector<Chunk>& chunks) {
  const Pages pages(kHeadersAtOnce);
  std::vector<Chunk> right;
  for (std::size_t first = 0; first < chunks.size(); first += kHeadersAtOnce) {
    const std::size_t count = std::min(kHeadersAtOnce, chunks.size() - first);
    std::vector<iovec> pieces(count);
    std::vector<penstock_request> transfers(count);
    for (std::size_t i = 0; i < count; ++i) {
      pieces[i] = {pages[i].data(), kHeaderBytes};
      transfers[i] = slab_request(PENSTOCK_READ, chunks[first + i].slot_offset, {&pieces[i], 1});
    }
    const std::vector<Moved> moved = volume_.transfer(transfers);
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_whole = moved[i].bytes == kHeaderBytes && is_header_of(chunks[first + i], name_, pages[i]);
      if (!moved[i].status.ok() || is_whole) right.push_back(chunks[first + i]);
    }
  }
  chunks = std::move(right);
}

bool Store::reserve(Request& request) {
  Chunk& chunk = request.chunk;
  chunk = {request.key, 0, 0, bytes_of(request.pieces), 0, 0, request.cost};
  const auto gone = [&](const Chunk& other) {
    mutex_.assume_held();
    records_.push_back({RecordKind::erase, other});
    ++counts_.evicted;
  };
  if (index_.find(request.key) != nullptr) request.outcome = Outcome::present;
  else if (chunk.bytes > index_.slab().payload_max()) request.outcome = Outcome::large;
  else if (records_.size() >= kUncommittedMost) {
    request.outcome = Outcome::failed;
    request.status = core::failure(core::Code::limit, "put a chunk while so many are not committed");
  } else if (!index_.add(chunk, gone)) request.outcome = Outcome::full;
  else {
    chunk.generation = ++generation_;
    return true;
  }
  return false;
}

// Writes headers and payloads in any order: no reader uses them before publish(), or, after a crash, before a commit.
void Store::write(std::span<Request* const> puts) {
  std::vector<std::span<std::byte>> slots;
  slots.reserve(puts.size());
  for (const Request* const put : puts) slots.push_back(slot_for_copies(volume_, *put));
  const auto others = std::count_if(slots.begin(), slots.end(), [](const auto& slot) { return slot.empty(); });
  const Pages pages(static_cast<std::size_t>(others));
  std::vector<iovec> headers;
  headers.reserve(puts.size());  // Transfers refer to them.
  std::vector<penstock_request> transfers;
  const Result<std::vector<std::uint32_t>> crcs = checksums(volume_, puts);
  for (std::size_t i = 0; i < puts.size(); ++i) {
    Request& request = *puts[i];
    Chunk& chunk = request.chunk;
    request.outcome = crcs.ok() ? Outcome::done : Outcome::failed;
    request.status = crcs.status();
    if (!crcs.ok()) continue;
    chunk.crc = (*crcs)[i];
    if (request.crc.value_or(chunk.crc) != chunk.crc) {
      request.outcome = Outcome::damaged;
      continue;
    }
    if (!slots[i].empty()) {
      copy_in(request, slots[i]);
      continue;
    }
    const std::span<std::byte> page = pages[headers.size()];
    encode_header(chunk, name_, page);
    add_transfers(PENSTOCK_WRITE, chunk, headers.emplace_back(iovec{page.data(), kHeaderBytes}), request.pieces,
                  transfers);
  }
  const auto add_bytes = [](std::uint64_t sum, const Request* put) { return sum + put->chunk.bytes; };
  const UnderWay own(under_way_, std::accumulate(puts.begin(), puts.end(), std::uint64_t{0}, add_bytes));
  const std::vector<Moved> moved = volume_.transfer(transfers);
  auto next = moved.begin();
  for (std::size_t i = 0; i < puts.size(); ++i) {
    Request* const put = puts[i];
    if (put->outcome != Outcome::done || !slots[i].empty()) continue;  // This put was not written by a request.
    for (const std::uint64_t bytes : {std::uint64_t{kHeaderBytes}, put->chunk.bytes}) {
      if (bytes == 0) continue;
      const Moved one = *next++;
      if (one.status.ok() && one.bytes == bytes) continue;
      put->outcome = Outcome::failed;
      put->status = one.status.ok() ? core::os_failure(EIO, "write the chunk") : one.status;
    }
  }
}

void Store::copy_in(const Request& put, std::span<std::byte> slot) const {
  encode_header(put.chunk, name_, slot.first(kHeaderBytes));
  std::byte* into = slot.data() + kHeaderBytes;
  for (const iovec& piece : put.pieces) {
    std::memcpy(into, piece.iov_base, piece.iov_len);
    into += piece.iov_len;
  }
}

void Store::publish(Request& put) {
  if (put.outcome == Outcome::done && put.chunk.generation <= unflushed_to_) {
    put.outcome = Outcome::failed;
    put.status = core::os_failure(EIO, "flush the store's slab");
  }
  if (put.outcome != Outcome::done) return index_.remove(put.key);
  Entry& entry = *index_.find(put.key);
  index_.update(entry, [&](Entry& changed) {
    changed.chunk = put.chunk;
    changed.is_ready = true;
    changed.pins = put.is_pinned ? 1 : 0;
  });
  records_.push_back({RecordKind::put, put.chunk});
  counts_.put_bytes += put.chunk.bytes;
}

void Store::put(std::span<Request* const> requests) {
  std::vector<Request*> puts;
  puts.reserve(requests.size());
  {
    const MutexLock lock(mutex_);
    for (Request* const request : requests) {
      if (reserve(*request)) puts.push_back(request);
    }
  }
  write(puts);
  const MutexLock lock(mutex_);
  for (Request* const put : puts) publish(*put);
  for (const Request* const request : requests) ++counts_.puts[static_cast<unsigned>(request->outcome)];
}

const Chunk* Store::find(const Name& key) const {
  const Entry* const entry = if_ready(index_.find(key));
  return entry != nullptr ? &entry->chunk : nullptr;
}

void Store::begin_get(const Chunk& chunk) {
  index_.update(*index_.find(chunk.key), [](Entry& used) { ++used.users; });
}

void Store::end_get(Request& request) {
  Entry* const entry = leave(request.chunk);
  if (entry == nullptr) return;
  if (request.outcome == Outcome::done) index_.touch(*entry);
  else if (request.outcome == Outcome::damaged) evict(*entry);
}

Entry* Store::leave(const Chunk& chunk) {
  Entry* const entry = index_.find(chunk.key);
  if (entry != nullptr && entry->is_ready && entry->chunk.generation == chunk.generation) {
    index_.update(*entry, [](Entry& left) { --left.users; });
    return entry;
  }
  const auto tombstone = tombstones_.find(chunk.slot_offset);
  PENSTOCK_INVARIANT(tombstone != tombstones_.end());
  if (--tombstone->second > 0) return nullptr;
  tombstones_.erase(tombstone);
  index_.give_back(chunk.slot_offset);
  return nullptr;
}

std::span<const std::byte> Store::Mapping::payload() const {
  return store_->volume_.in_memory().subspan(chunk_.slot_offset + kHeaderBytes, chunk_.bytes);
}

std::optional<Store::Mapping> Store::map_chunk(const Name& key) {
  PENSTOCK_INVARIANT(!volume_.in_memory().empty());
  const MutexLock lock(mutex_);
  const Entry* const entry = if_ready(index_.find(key));
  if (entry == nullptr) return std::nullopt;
  begin_get(entry->chunk);
  return Mapping(this, entry->chunk);
}

// If memory is short the chunk stays, and is not evictable until it is used again.
void Store::unmap(const Mapping& mapping) noexcept try {
  const MutexLock lock(mutex_);
  Entry* const entry = leave(mapping.chunk_);
  if (entry != nullptr && mapping.is_damaged_) evict(*entry);
} catch (const std::bad_alloc&) {
}

void Store::evict(Entry& entry) {
  const Chunk chunk = entry.chunk;
  records_.push_back({RecordKind::erase, chunk});
  if (entry.users == 0) return index_.remove(chunk.key);
  tombstones_[chunk.slot_offset] = entry.users;
  index_.make_tombstone(chunk.key);
}

bool Store::erase(const Name& key) {
  const MutexLock lock(mutex_);
  Entry* const entry = if_ready(index_.find(key));
  if (entry == nullptr) return false;
  evict(*entry);
  return true;
}

bool Store::touch(const Name& key) {
  const MutexLock lock(mutex_);
  Entry* const entry = if_ready(index_.find(key));
  if (entry == nullptr) return false;
  index_.touch(*entry);
  return true;
}

bool Store::pin(const Name& key) {
  const MutexLock lock(mutex_);
  Entry* const entry = if_ready(index_.find(key));
  if (entry == nullptr) return false;
  index_.update(*entry, [](Entry& pinned) { ++pinned.pins; });
  return true;
}

bool Store::unpin(const Name& key) {
  const MutexLock lock(mutex_);
  Entry* const entry = index_.find(key);
  if (entry == nullptr || entry->pins == 0) return false;
  index_.update(*entry, [](Entry& left) { --left.pins; });
  return true;
}

// The drive may not have what was put since the last flush, or is being put. Nothing else will tell.
void Store::drop_unflushed() {
  unflushed_to_ = generation_;
  std::vector<Chunk> lost;
  lost.reserve(records_.size());
  const auto is_lost = [&](const Record& record) {
    if (record.kind == RecordKind::put) lost.push_back(record.chunk);
    return record.kind == RecordKind::put;
  };
  std::erase_if(records_, is_lost);
  for (const Chunk& chunk : lost) {
    Entry* const entry = if_ready(index_.find(chunk.key));
    if (entry != nullptr && entry->chunk.generation == chunk.generation) evict(*entry);
  }
}

Status Store::commit() {
  const MutexLock committing(commit_mutex_);
  std::vector<Record> records;
  {
    const MutexLock lock(mutex_);
    records.swap(records_);
  }
  if (records.empty() && is_journal_durable_) return core::success();
  Status status = volume_.sync();
  const bool is_flushed = !core::may_have_lost_bytes(status);
  const std::vector<std::byte> bytes = encode(records);
  if (status.ok()) status = volume_.write_journal(journal_bytes_, bytes);
  std::size_t chunks = 0;
  {
    const MutexLock lock(mutex_);
    if (!status.ok()) records_.insert(records_.begin(), records.begin(), records.end());
    else ++counts_.commits;
    if (!is_flushed) drop_unflushed();
    chunks = index_.count();
  }
  if (!status.ok()) return status;
  journal_bytes_ += bytes.size();
  if (journal_bytes_ <= journal_bytes_most(chunks) && is_journal_durable_) return status;
  return rewrite_journal(false);
}

// Chunks that are not committed are left out: the next commit adds their records. The lock is held only to copy the
// entries.
Status Store::rewrite_journal(bool is_closed) {
  std::vector<Entry> entries;
  std::vector<std::uint64_t> later;
  const auto now = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  std::vector<Record> records = {{RecordKind::store, {name_, now, settings_.extent_bytes, settings_.bytes}}};
  {
    const MutexLock lock(mutex_);
    entries = index_.entries();
    for (const Record& record : records_) {
      if (record.kind == RecordKind::put) later.push_back(record.chunk.generation);
    }
    records[0].chunk.generation = generation_;
  }
  std::sort(later.begin(), later.end());
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.priority < b.priority; });
  for (const Entry& entry : entries) {
    if (!entry.is_ready || std::binary_search(later.begin(), later.end(), entry.chunk.generation)) continue;
    records.push_back({RecordKind::put, entry.chunk});
  }
  if (is_closed) records.push_back({RecordKind::closed, {name_}});
  const std::vector<std::byte> bytes = encode(records);
  bool is_replaced = false;
  const Status status = volume_.replace_journal(bytes, is_replaced);
  if (is_replaced) {
    journal_bytes_ = bytes.size();
    is_journal_durable_ = status.ok();
  }
  return status;
}

Status Store::close() {
  const Status status = commit();
  if (!status.ok()) return status;
  const MutexLock committing(commit_mutex_);
  return rewrite_journal(true);
}

State Store::state() const {
  const MutexLock lock(mutex_);
  return {counts_,         index_.count(),   index_.slab().used_bytes(), index_.slab().bytes(),
          records_.size(), dropped_at_start_};
}

}  // namespace penstock::kv
