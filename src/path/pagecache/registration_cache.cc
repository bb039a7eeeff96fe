// SPDX-License-Identifier: Apache-2.0

#include "path/pagecache/registration_cache.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <utility>

#include "base/align.h"
#include "base/invariant.h"
#include "base/memory_room.h"
#include "base/page_size.h"
#include "base/thread.h"

namespace penstock::core {
namespace {

using State = Extent::State;
using Presence = ExtentWatch::Presence;
using namespace std::chrono_literals;

constexpr std::uint64_t kExtent = Extent::kBytes;
constexpr auto kTidyPause = 1s;          // Interval of memory checks while something is registered.
constexpr std::uint64_t kRoomPart = 16;  // 1/kRoomPart of the machine's memory must stay available.

// Registering blocks the driver for a while. At most one of so many small requests may be affected; larger ones count
// by bytes.
constexpr std::uint64_t kSmallRequestsApart = 256, kSmallRequest = 64u << 10;
constexpr std::uint64_t kPacedFrom = 512u << 10, kPaceMax = 16;  // Smaller requests are latency-bound,
constexpr std::uint64_t kQueuedPace = 32;                        // unless many are in flight.
// The cache's thread registers extents ahead of smaller reads only: with it, 8 concurrent reads of 16 MiB were up to a
// tenth slower.
constexpr std::uint64_t kReadAheadBelow = kExtent / 2;
constexpr std::uint64_t kEarly = 4;  // The first 1/kEarly of an extent shows whether reads are sequential.
// After a failure, an extent's savings begin anew at minus this many times the cost of a registration.
constexpr std::int64_t kRetryAfter = 8;

std::atomic<std::uintptr_t>& slot_of(const File& file) { return file.slot(PathId::pagecache); }

// The head of a file's list, which has one entry per device.
CachedFile* first_of(const File& file) {
  return reinterpret_cast<CachedFile*>(slot_of(file).load(std::memory_order_acquire));
}

}  // namespace

RegistrationCache::RegistrationCache(const RegistrationRules& rules, const Clock& time)
    : rules_(rules), time_(time), costs_(rules.cpu_weight), registrations_(rules.bytes_max) {}

RegistrationCache::~RegistrationCache() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    arrivals_.notify_all();
  }
  if (started_) ::pthread_join(thread_, nullptr);
}

CachedFile* RegistrationCache::find(const File& file, const Device& device) const {
  CachedFile* cached = first_of(file);
  while (cached != nullptr && &cached->device() != &device) cached = cached->next_;
  return cached;
}

CachedFile* RegistrationCache::find_or_make(File& file, Device& device, const CachedFile::Terms& terms) {
  if (CachedFile* known = find(file, device)) return known;
  const MutexLock lock(mutex_);
  if (CachedFile* known = find(file, device)) return known;
  files_.push_back(std::make_unique<CachedFile>(file, device, terms));
  files_.back()->next_ = first_of(file);
  slot_of(file).store(reinterpret_cast<std::uintptr_t>(files_.back().get()), std::memory_order_release);
  return files_.back().get();
}

// ---- Break-even ----------------------------------------------------------------------------------------------------

bool RegistrationCache::is_worth(Extent& extent, std::uint64_t bytes, const FileRange& request, bool small) {
  const std::int64_t gain = costs_.saving(request, bytes, small);
  const std::int64_t so_far = extent.saving_.fetch_add(gain, std::memory_order_relaxed) + gain;
  return so_far >= costs_.break_even(request.size, bytes, small);
}

RegistrationCache::Wanted RegistrationCache::want(CachedFile& file, const FileRange& range, SubmitMode mode) {
  const bool small = mode != SubmitMode::many;
  clock_.fetch_add(1, std::memory_order_relaxed);
  const bool must = at_once(file.terms(), range.op);
  const bool patient = !small || must;
  std::uint64_t end = range.offset + range.size;
  Missing missing{.all = patient && range.size > 0};
  if (patient) {
    const Result<std::uint64_t> file_end = file.file().size();
    // There are no pages past the end: a write that extends the file is bounced as a whole.
    if (!file_end.ok() || *file_end <= range.offset || (range.op == Op::write && *file_end < end)) return Wanted::no;
    end = std::min(end, *file_end);
    missing.goes_on = !must && goes_on(file, range);
    if (missing.goes_on) order_ahead(file, (end - 1) / kExtent + 1, *file_end);
  }
  if (!find_missing(file, range, end, small, missing)) return Wanted::no;
  if (missing.first == UINT64_MAX || (!patient && !is_turn_of_small(range.size, mode)))
    return missing.all ? Wanted::yes : Wanted::no;
  // Bytes that are not in the page cache are not worth mapping: page faults are slower than direct I/O.
  const std::uint64_t from = std::max(range.offset, missing.first * kExtent);
  const std::uint64_t bytes = std::min(end, (missing.last + 1) * kExtent) - from;
  if (!must && !file.file().is_resident(from, bytes)) return Wanted::no;
  if (!patient) order(file, missing.first, missing.last);
  if (!missing.all) return Wanted::no;
  return missing.some_registered ? Wanted::yes : Wanted::all_anew;
}

// True for an early read of an extent that begins where another read ended: then the whole extent is likely to be read.
// Depends on the costs of registering and bouncing here.
bool RegistrationCache::goes_on(CachedFile& file, const FileRange& range) {
  if (range.op == Op::write || range.size >= kReadAheadBelow) return false;
  const std::uint64_t end = range.offset + range.size;
  if (file.read_end_.exchange(end, std::memory_order_relaxed) != range.offset || range.offset == 0) return false;
  const std::uint64_t own = (end - 1) / kExtent;
  return end - own * kExtent <= kEarly * range.size &&
         costs_.saving(range, kExtent, false) >= costs_.break_even(range.size, kExtent, false);
}

// Not if it would evict others, and not a file's last extent, which may be growing.
void RegistrationCache::order_ahead(CachedFile& file, std::uint64_t index, std::uint64_t file_end) {
  const std::uint64_t begin = index * kExtent;
  const bool has_room = registered_bytes() + (kOrdersMax + 1) * kExtent <= rules_.bytes_max;
  if (!has_room || begin + kExtent > file_end) return;
  const Extent* const extent = file.extent(index);
  if (extent == nullptr || extent->state() != State::none || extent->saving() < 0) return;
  if (file.file().is_resident(begin, kExtent)) order(file, index, index);
}

// Returns false if the extents do not exist: no memory for more, or none within the file.
bool RegistrationCache::find_missing(CachedFile& file, const FileRange& range, std::uint64_t end, bool small,
                                     Missing& missing) {
  const bool must = at_once(file.terms(), range.op);
  for (std::uint64_t index = range.offset / kExtent; index * kExtent < end; ++index) {
    // Creates none for small requests: a sparse file may have a great many extents that are never needed.
    if (small && !must && file.find(index) == nullptr) {
      const Result<std::uint64_t> file_end = file.file().size();
      if (!file_end.ok() || *file_end <= index * kExtent) return false;
    }
    Extent* const extent = file.extent(index);
    if (extent == nullptr) return false;
    const State state = extent->state();
    if (state == State::registered || state == State::wanted) {
      missing.some_registered = true;
      continue;
    }
    const std::uint64_t begin = index * kExtent;
    const std::uint64_t bytes = std::min(end, begin + kExtent) - std::max(range.offset, begin);
    const bool is_begun = missing.goes_on && extent->saving() >= 0;
    if (state == State::evicting || !(is_worth(*extent, bytes, range, small) || must || is_begun)) {
      missing.all = false;
      continue;
    }
    missing.first = std::min(missing.first, index);
    missing.last = index;
  }
  return true;
}

bool RegistrationCache::is_turn_of_small(std::uint64_t size, SubmitMode mode) {
  const std::uint64_t least = mode == SubmitMode::queued ? kQueuedPace : 1;
  const std::uint64_t pace = std::max(least, size < kPacedFrom ? 1 : std::min(size / kSmallRequest, kPaceMax));
  const std::uint64_t present = now();
  if (present - small_order_.load(std::memory_order_relaxed) < kSmallRequestsApart / pace) return false;
  const std::int64_t time = time_.now().count();
  const auto apart = static_cast<std::int64_t>(kSmallOrdersApart / 1ns / pace);
  std::int64_t last = small_order_ns_.load(std::memory_order_relaxed);
  if (time - last < apart || !small_order_ns_.compare_exchange_strong(last, time)) return false;
  small_order_.store(present, std::memory_order_relaxed);
  return true;
}

// ---- The thread that registers -------------------------------------------------------------------------------------

void RegistrationCache::start_locked() {
  if (started_ || stopping_) return;
  started_ = start_thread(
      thread_, "penstock-keep", [](void* cache) { static_cast<RegistrationCache*>(cache)->loop(); }, this);
}

void RegistrationCache::order(CachedFile& file, std::uint64_t first, std::uint64_t last) {
  const MutexLock lock(mutex_);
  start_locked();
  if (!started_) return;
  for (std::uint64_t index = first; index <= last; ++index) {
    if (orders_.size() >= kOrdersMax) break;
    Extent* const extent = file.extent(index);
    State expected = State::none;
    orders_.push_back({&file, extent, index});  // First, since it may fail for lack of memory.
    if (!extent->state_.compare_exchange_strong(expected, State::wanted)) orders_.pop_back();
  }
  arrivals_.notify_one();
}

// Drops an order that will not be executed.
void RegistrationCache::drop_locked(const Place& place) {
  if (!place.evicts) place.extent->settle(State::none);
}

void RegistrationCache::loop() {
  const MutexLock lock(mutex_);
  auto next_look = std::chrono::steady_clock::now() + kTidyPause;
  while (!stopping_) {
    const bool idle = registrations_.bytes() == 0;
    if (!idle && std::chrono::steady_clock::now() >= next_look) {  // Even if orders arrived meanwhile.
      tidy_up();
      look_again();
      next_look = std::chrono::steady_clock::now() + kTidyPause;
      continue;
    }
    if (orders_.empty()) {
      if (idle) arrivals_.wait(mutex_);
      else (void)arrivals_.wait_until(mutex_, next_look);
      continue;
    }
    in_progress_ = orders_.front();
    orders_.pop_front();
    {
      const Place place = in_progress_;
      const MutexUnlock unlock(mutex_);
      if (place.evicts) registrations_.evict(*place.extent);
      else fulfil(place);
    }
    in_progress_ = {};
    put_down_.notify_all();
  }
  for (const Place& place : orders_) drop_locked(place);
  orders_.clear();
}

void RegistrationCache::fulfil(const Place& place) {
  std::unique_ptr<Registration> registration = register_extent(place);
  if (registration == nullptr) return place.extent->settle(State::none);
  registrations_.add(std::move(registration));
  const MutexLock lock(mutex_);
  start_locked();          // Starts the thread that tidies up,
  arrivals_.notify_one();  // which waits for the first registration.
}

void RegistrationCache::register_now(CachedFile& file, std::uint64_t index) {
  Extent* const extent = file.extent(index);
  State expected = State::none;
  if (extent == nullptr || extent->state() == State::registered) return;
  if (extent->state_.compare_exchange_strong(expected, State::wanted)) fulfil({&file, extent, index});
  else extent->wait_while_wanted();
}

// Releases the lock meanwhile.
void RegistrationCache::tidy_up() {
  const MutexUnlock unlock(mutex_);
  const MemoryRoom room = memory_room();
  registrations_.tidy_up(room.total > 0 && room.available < room.total / kRoomPart, now());
}

// Releases the lock meanwhile; the file is not forgotten while it is checked.
void RegistrationCache::look_again() {
  for (std::size_t i = 0; i < files_.size() && !stopping_; ++i) {
    CachedFile& file = *files_[i];
    in_progress_ = {.file = &file};
    {
      const MutexUnlock unlock(mutex_);
      file.for_each_extent([this](Extent& extent) {
        if (!extent.is_settled() || !extent.hold(extent.used_at_.load(std::memory_order_relaxed))) return;
        watch_.look_again(extent);
        extent.release();
      });
    }
    in_progress_ = {};
    put_down_.notify_all();
  }
}

// Returns null if it cannot be registered.
std::unique_ptr<Registration> RegistrationCache::register_extent(const Place& place) {
  Extent& extent = *place.extent;
  const std::uint64_t begin = place.index * kExtent;
  const Result<int> fd = place.file->file().descriptor(IoMode::buffered);
  if (!fd.ok()) return nullptr;
  const Result<std::uint64_t> size = place.file->file().size();
  const std::uint64_t bytes = size.ok() && *size > begin ? std::min(align_up(*size - begin, page_size()), kExtent) : 0;
  // After a failure, not tried again until it is worth much more.
  extent.saving_.store(-kRetryAfter * costs_.break_even(bytes, bytes, false), std::memory_order_relaxed);
  const bool is_there = place.file->terms().only_by_pages || place.file->file().is_resident(begin, bytes);
  if (bytes == 0 || !is_there || !registrations_.reserve(*place.file->device().pages(), bytes, now())) return nullptr;
  std::unique_ptr<Registration> registration = register_pages(*place.file, *fd, begin, bytes);
  if (registration == nullptr) {
    registrations_.cancel(bytes);
    return nullptr;
  }
  registration->used_at = now();
  extent.attach(*registration);
  if (const Result<FileStamp> stamp = place.file->file().stamp(); stamp.ok() && watch_.is_open()) {
    (void)watch_.look(*place.file, extent, begin, bytes, *stamp);
  }
  return registration;
}

std::unique_ptr<Registration> RegistrationCache::register_pages(CachedFile& file, int fd, std::uint64_t begin,
                                                                std::uint64_t bytes) {
  std::unique_ptr<Registration> registration(new (std::nothrow) Registration);
  if (registration == nullptr) return nullptr;
  const MutexLock turn(driver_turn_);
  const std::chrono::nanoseconds start = time_.now();
  bool writable = file.terms().writable;
  Result<PageMapping> mapping = PageMapping::open(fd, begin, bytes, writable);
  if (!mapping.ok() && writable && mapping.status().is_errno(EPERM)) {  // The file may be sealed, as memfds are.
    writable = false;
    mapping = PageMapping::open(fd, begin, bytes, writable);
  }
  const Status status =
      mapping.ok() ? file.device().pages()->register_pages(mapping->data(), bytes, writable) : mapping.status();
  const std::chrono::nanoseconds took = time_.now() - start;
  if (!status.ok()) return nullptr;
  if (bytes == kExtent) costs_.learn_registering(static_cast<std::uint64_t>(took.count()));
  registration->device = file.device().pages();
  registration->begin = begin;
  registration->mapping = std::move(*mapping);
  registration->writable = writable;
  return registration;
}

// ---- Extents that are lent, and that go -----------------------------------------------------------------------------

// Pages that belong to the file now may be removed from it before the stream copies them. They then still have the
// bytes of a moment when the request was in flight, since they stay registered. This does not wait for pages that are
// being migrated: staging is available, and the caller holds up others.
std::span<const std::byte> RegistrationCache::lend(CachedFile& file, const FileRange& range) {
  const std::uint64_t index = range.offset / Extent::kBytes;
  Extent* const extent = file.find(index);
  if (extent == nullptr || !extent->hold(now())) return {};
  const Result<FileStamp> stamp = file.file().stamp();
  const bool is_there = stamp.ok() && range.offset + range.size <= std::min(stamp->size, extent->end());
  std::optional<Presence> presence;
  if (is_there) presence = watch_.look(file, *extent, range.offset, range.size, *stamp);
  const std::span<const std::byte> lent(extent->at(range.offset), presence == Presence::there ? range.size : 0);
  extent->release();
  if (presence == Presence::gone) evict_later(file, index);
  return lent;
}

// Leaves it to the cache's thread: a caller of lend() must not call the device.
void RegistrationCache::evict_later(CachedFile& file, std::uint64_t index) {
  const MutexLock lock(mutex_);
  Extent* const extent = file.find(index);
  const auto is_it = [extent](const Place& place) { return place.evicts && place.extent == extent; };
  if (!started_ || stopping_ || std::any_of(orders_.begin(), orders_.end(), is_it)) return;
  orders_.push_back({&file, extent, index, true});
  arrivals_.notify_one();
}

void RegistrationCache::forget(File& file) {
  const auto* const first = reinterpret_cast<CachedFile*>(file.slot(PathId::pagecache).exchange(0));
  if (first == nullptr) return;
  RegistrationList evicted;
  {
    const MutexLock lock(mutex_);
    const auto ours = [&](const Place& place) { return place.file != nullptr && &place.file->file() == &file; };
    std::erase_if(orders_, [&](const Place& place) {
      if (!ours(place)) return false;
      mutex_.assume_held();
      drop_locked(place);
      return true;
    });
    while (ours(in_progress_)) put_down_.wait(mutex_);
    for (const CachedFile* each = first; each != nullptr; each = each->next_) {
      each->for_each_extent([&](Extent& extent) {
        PENSTOCK_INVARIANT(extent.users_.load() == 0);  // No chunk of the file is in flight.
        if (std::unique_ptr<Registration> taken = registrations_.take(extent)) evicted.insert(std::move(taken));
      });
    }
    std::erase_if(files_, [&](const std::unique_ptr<CachedFile>& cached) { return &cached->file() == &file; });
  }
  registrations_.unregister_all(evicted);
}

}  // namespace penstock::core
