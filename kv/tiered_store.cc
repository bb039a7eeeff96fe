// SPDX-License-Identifier: Apache-2.0

#include "kv/tiered_store.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

namespace penstock::kv {
namespace {

using core::MutexLock;

constexpr std::uint64_t kBatchPages = 4096;  // A batch has at most 16 MiB, or one larger chunk.
constexpr std::size_t kBatchChunks = 64;
constexpr auto kSleep = std::chrono::milliseconds(2);
constexpr int kSleepsMost = 50;

std::uint64_t pages_for(std::uint64_t bytes) { return (bytes + kSlotAlign - 1) / kSlotAlign; }

void count(std::span<Request* const> requests, std::uint64_t (&outcomes)[kOutcomes], std::uint64_t& bytes) {
  for (const Request* const one : requests) {
    ++outcomes[static_cast<unsigned>(one->outcome)];
    if (one->outcome == Outcome::done) bytes += bytes_of(one->pieces);
  }
}

}  // namespace

// The chunks that one call of write_some() writes from memory to the drive.
struct TieredStore::Batch {
  std::vector<Request> requests;
  std::vector<iovec> pieces;
  std::uint64_t pages = 0;
  std::uint64_t taken = 0;
  double seconds = 0;  // The time that the drive took.
};

TieredStore::TieredStore(Store& memory, Store& drive, Writing writing) : memory_(memory), drive_(drive) {
  if (writing == Writing::by_thread) thread_ = std::thread([this] { run(); });
}

TieredStore::~TieredStore() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
  }
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void TieredStore::run() {
  for (bool was_busy = false; wait_for_work(was_busy);) was_busy = write_some();
}

// Waking the thread for each put would take CPU and locks from the threads that put. So while puts come it polls every
// other millisecond, and is woken only if much is waiting, a flush() waits, or it sleeps after a pause.
bool TieredStore::wait_for_work(bool was_busy) {
  const MutexLock lock(mutex_);
  for (int sleeps = was_busy ? 1 : 0; !is_ending_ && !is_hurried(); ++sleeps) {
    if (sleeps > 0 && !queue_.empty()) break;
    is_asleep_ = queue_.empty() && sleeps >= kSleepsMost;
    if (is_asleep_) work_.wait(mutex_);
    else static_cast<void>(work_.wait_until(mutex_, std::chrono::steady_clock::now() + kSleep));
    is_asleep_ = false;
  }
  return !is_ending_;
}

bool TieredStore::is_hurried() const {
  return !queue_.empty() && (flushes_ > 0 || queue_.size() >= kBatchChunks || queued_pages_ >= kBatchPages);
}

// ---- Put

void TieredStore::enqueue(const Name& key, Held& held) {
  held.is_waiting = true;
  ++state_.waiting;
  ++enqueued_;
  queue_.push_back(key);
  queued_pages_ += pages_for(memory_.size_of(key));
  if (is_asleep_ || is_hurried()) work_.notify_one();
}

void TieredStore::hold(const Request& request) {
  const auto [at, is_new] = held_.try_emplace(request.key);
  if (!is_new) memory_.unpin(request.key);  // Another thread's pin came first and holds it.
  at->second.cost = request.cost;
  if (!at->second.is_waiting) enqueue(request.key, at->second);
}

void TieredStore::put(std::span<Request* const> requests) {
  std::vector<Request*> into_memory;
  {
    const MutexLock lock(mutex_);
    for (Request* const one : requests) {
      const auto held = held_.find(one->key);
      one->outcome = Outcome::present;
      if ((held != held_.end() && held->second.is_waiting) || drive_.contains(one->key)) continue;
      one->is_pinned = true;
      into_memory.push_back(one);
    }
  }
  memory_.put(into_memory);
  const MutexLock lock(mutex_);
  for (const Request* const one : into_memory) {
    if (one->outcome == Outcome::done) hold(*one);
    // Memory has the chunk, but the drive evicted or refused it: write it to the drive again.
    const auto held = held_.find(one->key);
    if (one->outcome != Outcome::present || drive_.contains(one->key)) continue;
    if (held == held_.end() && memory_.pin(one->key)) hold(*one);
    else if (held != held_.end() && !held->second.is_waiting) enqueue(one->key, held->second);
  }
  count(requests, state_.puts, state_.put_bytes);
}

// ---- Get

void TieredStore::get(std::span<Request* const> requests) {
  std::vector<Request*> others;
  std::vector<Outcome> in_memory;  // Their outcomes there.
  memory_.get(requests);
  {
    const MutexLock lock(mutex_);
    for (Request* const one : requests) {
      if (one->outcome == Outcome::done) {
        ++state_.got_from_memory;
        continue;
      }
      // The chunk and its pin are gone, unless another thread has put it again meanwhile.
      if (one->outcome == Outcome::damaged && !is_busy(one->key) && !memory_.contains(one->key)) release(one->key);
      others.push_back(one);
      in_memory.push_back(one->outcome);
    }
  }
  if (!others.empty()) get_from_drive(others);
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (others[i]->outcome == Outcome::miss) others[i]->outcome = in_memory[i];
  }
  const MutexLock lock(mutex_);
  count(requests, state_.gets, state_.got_bytes);
}

void TieredStore::get_from_drive(std::span<Request* const> requests) {
  const auto began = std::chrono::steady_clock::now();
  const std::uint64_t queued = drive_.under_way();
  const std::vector<Name> promoting = begin_promotion(requests);
  drive_.get(requests);
  promote(requests, promoting);
  std::uint64_t bytes = 0;
  for (const Request* const one : requests) {
    if (one->outcome != Outcome::done) return;
    bytes += bytes_of(one->pieces);
  }
  drive_pace_.add(bytes, queued, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
}

// Marks chunks on the drive for promotion into memory. A thread that erases one waits until promote() has ended.
std::vector<Name> TieredStore::begin_promotion(std::span<Request* const> requests) {
  std::vector<Name> keys;
  const MutexLock lock(mutex_);
  for (const Request* const one : requests) {
    const Name& key = one->key;
    if (!drive_.contains(key) || is_busy(key)) continue;
    promoting_.insert(key);
    keys.push_back(key);
  }
  return keys;
}

// The caller's requests keep the drive's outcomes.
void TieredStore::promote(std::span<Request* const> got, std::span<const Name> keys) {
  std::vector<Request> into_memory;
  for (const Request* const one : got) {
    if (one->outcome != Outcome::done) continue;
    if (std::find(keys.begin(), keys.end(), one->key) == keys.end()) continue;
    // By its checksum the chunk is refused if other bytes are in the caller's memory by now, as another get's.
    into_memory.emplace_back(
        Request{.key = one->key, .pieces = one->pieces, .is_host = one->is_host, .crc = one->chunk.crc});
  }
  memory_.put(each_of(into_memory));
  const MutexLock lock(mutex_);
  for (const Request* const one : got) state_.got_from_drive += one->outcome == Outcome::done ? 1 : 0;
  for (const Name& key : keys) promoting_.erase(key);
  changed_.notify_all();
}

std::uint64_t TieredStore::size_of(const Name& key) const {
  const std::uint64_t bytes = memory_.size_of(key);
  return bytes > 0 ? bytes : drive_.size_of(key);
}

std::optional<double> TieredStore::seconds_to_get(std::span<const Name> keys) const {
  std::vector<Name> in_memory;
  std::uint64_t bytes = 0;  // Bytes of the other chunks.
  for (const Name& key : keys) {
    if (memory_.contains(key)) in_memory.push_back(key);
    else bytes += drive_.size_of(key);
  }
  const std::optional<double> there = memory_.seconds_to_get(in_memory);
  if (bytes == 0 || !there) return there;
  const std::optional<double> elsewhere = drive_pace_.seconds(bytes, drive_.under_way());
  if (!elsewhere) return elsewhere;
  return *there + *elsewhere;
}

// ---- Erase and pin

void TieredStore::release(const Name& key) {
  const auto held = held_.find(key);
  if (held == held_.end()) return;
  if (held->second.is_waiting) --state_.waiting;  // Its key stays in queue_; take() skips it.
  held_.erase(held);
}

bool TieredStore::erase(const Name& key) {
  const MutexLock lock(mutex_);
  for (bool was_there = false;;) {
    release(key);
    was_there = memory_.erase(key) || was_there;
    was_there = drive_.erase(key) || was_there;
    if (!is_busy(key)) return was_there;
    changed_.wait(mutex_);
  }
}

bool TieredStore::touch(const Name& key) {
  const bool is_in_memory = memory_.touch(key);
  return drive_.touch(key) || is_in_memory;
}

bool TieredStore::pin(const Name& key) {
  const MutexLock lock(mutex_);
  const auto held = held_.find(key);
  if (held == held_.end()) {
    if (drive_.pin(key)) return true;
    if (!memory_.pin(key)) return false;
  }
  ++held_[key].pins;
  return true;
}

bool TieredStore::unpin(const Name& key) {
  const MutexLock lock(mutex_);
  const auto held = held_.find(key);
  if (held == held_.end() || held->second.pins == 0) return drive_.unpin(key);
  if (--held->second.pins > 0 || held->second.is_waiting) return true;
  held_.erase(held);
  memory_.unpin(key);
  return true;
}

// ---- To the drive

bool TieredStore::take(Batch& batch) {
  const MutexLock lock(mutex_);
  queued_pages_ = 0;
  while (!queue_.empty() && batch.requests.size() < kBatchChunks) {
    const Name key = queue_.front();
    const auto held = held_.find(key);
    const bool is_waiting = held != held_.end() && held->second.is_waiting && writing_.count(key) == 0;
    const std::uint64_t bytes = memory_.size_of(key);
    if (is_waiting && batch.pages > 0 && batch.pages + pages_for(bytes) > kBatchPages) break;
    queue_.pop_front();
    ++batch.taken;
    if (!is_waiting) continue;
    writing_.insert(key);
    batch.requests.push_back({key, {}, held->second.cost});
    batch.pieces.push_back({nullptr, bytes});
    batch.pages += pages_for(bytes);
  }
  return batch.taken > 0;
}

// Writes the chunks directly from memory. The drive computes the checksum, and refuses a chunk whose checksum is no
// longer that of its put: so bytes damaged in memory are not written.
void TieredStore::write_to_drive(Batch& batch) {
  std::vector<Request*> onto_drive;
  std::vector<Store::Mapping> mappings;
  for (std::size_t i = 0; i < batch.requests.size(); ++i) {
    Request& request = batch.requests[i];
    std::optional<Store::Mapping> mapping = memory_.map_chunk(request.key);
    if (!mapping) continue;  // The chunk was erased meanwhile.
    const std::span<const std::byte> payload = mapping->payload();
    batch.pieces[i] = {const_cast<std::byte*>(payload.data()), payload.size()};
    request.pieces = {&batch.pieces[i], 1};
    request.crc = mapping->crc();
    request.is_host = true;
    onto_drive.push_back(&request);
    mappings.push_back(std::move(*mapping));
  }
  const auto began = std::chrono::steady_clock::now();
  drive_.put(onto_drive);
  batch.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  for (std::size_t i = 0; i < onto_drive.size(); ++i) {
    if (onto_drive[i]->outcome == Outcome::damaged) mappings[i].mark_damaged();
  }
}

bool TieredStore::write_some() {
  Batch batch;
  if (!take(batch)) return false;
  try {
    write_to_drive(batch);
  } catch (const std::bad_alloc&) {
    for (Request& one : batch.requests) {
      one.outcome = Outcome::failed;
      one.status = core::failure(core::Code::out_of_memory, "bring a chunk from host memory to the drive");
    }
  }
  const MutexLock lock(mutex_);
  for (const Request& one : batch.requests) on_written(one);
  served_ += batch.taken;
  state_.written_seconds += batch.seconds;
  changed_.notify_all();
  return true;
}

void TieredStore::on_written(const Request& request) {
  writing_.erase(request.key);
  const bool is_on_drive = request.outcome == Outcome::done || request.outcome == Outcome::present;
  if (request.outcome == Outcome::done) {
    ++state_.written;
    state_.written_bytes += bytes_of(request.pieces);
  } else if (!is_on_drive) {
    ++state_.not_written[static_cast<unsigned>(request.outcome)];
    if (!request.status.ok()) state_.failure = request.status;
  }
  const auto held = held_.find(request.key);
  if (held == held_.end()) return;  // The chunk was erased.
  while (is_on_drive && held->second.pins > 0 && drive_.pin(request.key)) --held->second.pins;
  held->second.is_waiting = false;
  --state_.waiting;
  if (held->second.pins > 0 && memory_.contains(request.key)) return;  // The chunk stays in memory while users pin it.
  held_.erase(held);
  memory_.unpin(request.key);
}

void TieredStore::flush() {
  const MutexLock lock(mutex_);
  const std::uint64_t all = enqueued_;
  ++flushes_;
  work_.notify_one();
  while (served_ < all) {
    if (thread_.joinable()) {
      changed_.wait(mutex_);
      continue;
    }
    const core::MutexUnlock unlock(mutex_);
    write_some();
  }
  --flushes_;
}

core::Status TieredStore::commit() {
  flush();
  return drive_.commit();
}

TierState TieredStore::state() const {
  const MutexLock lock(mutex_);
  return state_;
}

}  // namespace penstock::kv
