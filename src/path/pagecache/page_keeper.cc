// SPDX-License-Identifier: Apache-2.0

#include "path/pagecache/page_keeper.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <new>
#include <numeric>
#include <utility>

#include "base/align.h"
#include "base/memory_room.h"
#include "base/thread.h"

namespace penstock::core {
namespace {

using State = KeptPiece::State;
using namespace std::chrono_literals;

constexpr std::uint64_t kPiece = KeptPiece::kBytes;
constexpr std::uint64_t kPage = 4096;
constexpr auto kTidyPause = 1s;          // Between looks at the machine's memory, while something is kept.
constexpr std::uint64_t kRoomPart = 16;  // Of the memory there is, as much as this part must stay available.

// Of an H200 machine, 2026-11-21, in nanoseconds: what is the same on every machine of its kind, and small against what
// is measured. DMA of a mebibyte; CPU of a mebibyte that eight workers bounce; a small request's system call and copy.
constexpr double kDmaCost = 19'000;
constexpr double kBounceCpuCost = 170'000;
constexpr std::uint64_t kBounceCost = 22'000;  // By the clock, with eight workers: until it was measured.
constexpr double kWriteCost = 150'000;         // Writing over a file, by the clock: one writer at a time.
constexpr double kSmallCost = 400;
constexpr double kSmallCostPerMebibyte = 105'000;
// Registering stops the driver for most of a millisecond, and with it whoever copies. Of small requests, one in so many
// may meet that.
constexpr double kStall = 0.02;  // What others wait, of the time it takes.
constexpr std::uint32_t kSmallRequestsApart = 256;
constexpr auto kSmallOrdersApart = 16ms;
constexpr std::uint64_t kOverlapMin = 4 * kPiece;  // Requests from which on most of the time overlaps.
// A piece that could not be had is tried again when it would have saved so many times its price.
constexpr std::int64_t kRetryAfter = 8;

double mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1u << 20); }

// The latest counts for a quarter: a few measurements settle it, and one that was disturbed does not upset it.
void average(std::atomic<std::uint64_t>& cost, std::uint64_t bytes, std::uint64_t nanoseconds) {
  const auto latest = static_cast<std::uint64_t>(static_cast<double>(nanoseconds) / mebibytes(bytes));
  const std::uint64_t known = cost.load(std::memory_order_relaxed);
  cost.store(known - known / 4 + latest / 4, std::memory_order_relaxed);
}

// What is there, or else so many new ones; where threads meet, those of the first. Null where memory is short.
template <typename T>
T* find_or_make(std::atomic<T*>& place, std::uint64_t count) {
  T* known = place.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  T* const fresh = new (std::nothrow) T[count]();
  if (fresh == nullptr || place.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) return fresh;
  delete[] fresh;
  return known;
}

}  // namespace

KeptFile::~KeptFile() {
  for (unsigned number = 0; number < kShelves; ++number) {
    Box* const shelf = shelves_[number].load();
    for (std::uint64_t box = 0; shelf != nullptr && box < boxes_of(number); ++box) delete[] shelf[box].load();
    delete[] shelf;
  }
}

std::uint64_t KeptFile::boxes_of(unsigned shelf) { return std::max((kFirstShelf << shelf) / kBox, std::uint64_t{1}); }

KeptFile::Place KeptFile::place_of(std::uint64_t index) {
  const auto shelf = static_cast<unsigned>(std::bit_width(index / kFirstShelf + 1) - 1);
  const std::uint64_t at = index + kFirstShelf - (kFirstShelf << shelf);
  return {shelf, at / kBox, at % kBox};
}

KeptPiece* KeptFile::find(std::uint64_t index) const {
  const auto [number, box, at] = place_of(index);
  if (number >= kShelves) return nullptr;
  const Box* const shelf = shelves_[number].load(std::memory_order_acquire);
  KeptPiece* const pieces = shelf == nullptr ? nullptr : shelf[box].load(std::memory_order_acquire);
  return pieces == nullptr ? nullptr : &pieces[at];
}

KeptPiece* KeptFile::piece(std::uint64_t index) {
  if (KeptPiece* const known = find(index)) return known;
  const auto [number, box, at] = place_of(index);
  if (number >= kShelves || box_count_.load(std::memory_order_relaxed) >= kBoxesMax) return nullptr;
  Box* const shelf = find_or_make(shelves_[number], boxes_of(number));
  if (shelf == nullptr) return nullptr;
  KeptPiece* const pieces = find_or_make(shelf[box], std::min(kFirstShelf << number, kBox));
  if (pieces == nullptr) return nullptr;
  box_count_.fetch_add(1, std::memory_order_relaxed);
  return &pieces[at];
}

PageKeeper::PageKeeper(Storage& storage, const KeepRules& rules) : storage_(storage), rules_(rules) {
  for (auto& cost : bounce_costs_) cost.store(kBounceCost, std::memory_order_relaxed);
}

PageKeeper::~PageKeeper() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    arrivals_.notify_all();
  }
  if (started_) ::pthread_join(thread_, nullptr);
  for (const Place& place : kept_) unregister(*place.file, *place.piece);
  for (Leftover& leftover : leftovers_) {
    // What the driver still has stays mapped for good.
    if (!leftover.device->unregister_pages(leftover.mapping.data())) leftover.mapping.abandon();
  }
}

int PageKeeper::watch_error() {
  std::call_once(watch_opened_, [this] {
    Result<PageWatch> opened = PageWatch::open();
    if (opened.ok()) watch_.emplace(std::move(*opened));
    else watch_error_ = opened.status().code;
  });
  return watch_error_;
}

KeptFile* PageKeeper::find(const File& file, const Device& device) const {
  KeptFile* kept = file.kept().load(std::memory_order_acquire);
  while (kept != nullptr && &kept->device() != &device) kept = kept->next_;
  return kept;
}

KeptFile* PageKeeper::find_or_make(File& file, Device& device, const KeptFile::Terms& terms) {
  if (KeptFile* known = find(file, device)) return known;
  const std::lock_guard lock(mutex_);
  if (KeptFile* known = find(file, device)) return known;
  files_.push_back(std::make_unique<KeptFile>(file, device, terms));
  files_.back()->next_ = file.kept().load(std::memory_order_relaxed);
  file.kept().store(files_.back().get(), std::memory_order_release);
  return files_.back().get();
}

// ---- What it is worth ----------------------------------------------------------------------------------------------

// Requests of like sizes are bounced at like costs: by how many threads, and beside how many others, is in there.
double PageKeeper::bounce_cost(const Stretch& request) const {
  if (request.op == Op::write) return kWriteCost;
  return static_cast<double>(bounce_costs_[size_class(request.size)].load(std::memory_order_relaxed));
}

std::int64_t PageKeeper::saving(std::uint64_t bytes, const Stretch& request, bool small) const {
  const double weight = rules_.cpu_weight;
  if (small) {
    return static_cast<std::int64_t>((kSmallCost + kSmallCostPerMebibyte * mebibytes(bytes)) * (1 + weight));
  }
  return static_cast<std::int64_t>(mebibytes(bytes) *
                                   (std::max(bounce_cost(request) - kDmaCost, 0.0) + weight * kBounceCpuCost));
}

// Of a large request, the pieces are registered while earlier ones are fetched: the two together were measured, and
// what is over the DMA alone is the price. Of a single piece, time that overlaps nothing is paid in full. A small
// request does not wait itself.
std::int64_t PageKeeper::premium(std::uint64_t bytes, bool small) const {
  const auto of_piece = [](const std::atomic<std::uint64_t>& cost) {
    return mebibytes(kPiece) * static_cast<double>(cost.load(std::memory_order_relaxed));
  };
  const double cost = of_piece(register_cost_);
  const double alone = cost - mebibytes(bytes) * kDmaCost;
  const double overlapped = of_piece(bring_cost_) - mebibytes(kPiece) * kDmaCost;
  const double waiting = small ? kStall * cost : std::max({alone, overlapped, 0.0});
  return static_cast<std::int64_t>(waiting + rules_.cpu_weight * cost);
}

bool PageKeeper::at_once(const KeptFile& file, Op op) const {
  return rules_.at_once || (op == Op::write && file.terms().only_by_pages);
}

bool PageKeeper::is_worth(KeptPiece& piece, std::uint64_t bytes, const Stretch& request, bool small) {
  const std::int64_t gain = saving(bytes, request, small);
  const std::int64_t so_far = piece.saving_.fetch_add(gain, std::memory_order_relaxed) + gain;
  return so_far >= premium(bytes, small);
}

void PageKeeper::learn(const Timing& timing) {
  // A smaller request pays for pieces that it reads a part of.
  if (!timing.bounced && timing.request < kOverlapMin) return;
  average(timing.bounced ? bounce_costs_[size_class(timing.request)] : bring_cost_, timing.bytes, timing.wall_ns);
}

PageKeeper::Wanted PageKeeper::want(KeptFile& file, const Stretch& stretch, bool small) {
  const auto [op, offset, size] = stretch;
  clock_.fetch_add(1, std::memory_order_relaxed);
  const bool must = at_once(file, op);
  const bool patient = !small || must;
  const Result<int> fd = file.file().descriptor(Way::buffered);
  std::uint64_t end = offset + size;
  if (patient) {
    const Result<std::uint64_t> file_end = file.file().size();
    // Nothing lies behind the end: a write that makes the file longer is bounced as a whole.
    if (!file_end.ok() || *file_end <= offset || (op == Op::write && *file_end < end)) return Wanted::no;
    end = std::min(end, *file_end);
  }
  std::uint64_t missing_first = UINT64_MAX, missing_last = 0;
  bool some_kept = false;
  bool all = patient && size > 0;
  for (std::uint64_t index = offset / kPiece; index * kPiece < end; ++index) {
    // Far behind the end there may be room for a great many, of which none is ever needed.
    if (!patient && file.find(index) == nullptr) {
      const Result<std::uint64_t> file_end = file.file().size();
      if (!file_end.ok() || *file_end <= index * kPiece) return Wanted::no;
    }
    KeptPiece* const piece = file.piece(index);
    if (piece == nullptr) return Wanted::no;
    const State state = piece->state();
    if (state == State::kept || state == State::wanted) {
      some_kept = true;
      continue;
    }
    const std::uint64_t begin = index * kPiece;
    const std::uint64_t bytes = std::min(end, begin + kPiece) - std::max(offset, begin);
    if (state == State::leaving || !(is_worth(*piece, bytes, stretch, small) || must)) {
      all = false;
      continue;
    }
    missing_first = std::min(missing_first, index);
    missing_last = index;
  }
  if (missing_first == UINT64_MAX || (!patient && !is_turn_of_small())) return all ? Wanted::yes : Wanted::no;
  const std::uint64_t from = std::max(offset, missing_first * kPiece);
  // What must come from storage first is not for mappings, whose page faults are no match for direct I/O.
  const std::uint64_t missing = std::min(end, (missing_last + 1) * kPiece) - from;
  if (!fd.ok() || !(must || storage_.is_resident(*fd, from, missing))) return Wanted::no;
  if (!patient) order(file, missing_first, missing_last);
  if (!all) return Wanted::no;
  return some_kept ? Wanted::yes : Wanted::all_anew;
}

bool PageKeeper::is_turn_of_small() {
  const std::uint32_t present = now();
  if (present - small_order_.load(std::memory_order_relaxed) < kSmallRequestsApart) return false;
  const std::int64_t time = std::chrono::steady_clock::now().time_since_epoch() / 1ns;
  std::int64_t last = small_order_ns_.load(std::memory_order_relaxed);
  if (time - last < kSmallOrdersApart / 1ns || !small_order_ns_.compare_exchange_strong(last, time)) return false;
  small_order_.store(present, std::memory_order_relaxed);
  return true;
}

// ---- The thread that registers -------------------------------------------------------------------------------------

void PageKeeper::start_locked() {
  if (started_ || stopping_) return;
  started_ = start_thread(
      thread_, "penstock-keep", [](void* keeper) { static_cast<PageKeeper*>(keeper)->loop(); }, this);
}

void PageKeeper::order(KeptFile& file, std::uint64_t first, std::uint64_t last) {
  const std::lock_guard lock(mutex_);
  start_locked();
  if (!started_) return;
  for (std::uint64_t index = first; index <= last; ++index) {
    KeptPiece* const piece = file.piece(index);
    State expected = State::none;
    if (piece->state_.compare_exchange_strong(expected, State::wanted)) orders_.push_back({&file, piece, index});
  }
  arrivals_.notify_one();
}

void PageKeeper::settle(KeptPiece& piece, State state) {
  piece.state_.store(state);
  piece.state_.notify_all();
}

void PageKeeper::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (orders_.empty()) {
      const bool idle = kept_.empty() && leftovers_.empty();
      if (idle) arrivals_.wait(lock);
      else if (arrivals_.wait_for(lock, kTidyPause) == std::cv_status::timeout) tidy_up();
      continue;
    }
    in_hand_ = orders_.front();
    orders_.pop_front();
    lock.unlock();
    fulfil(in_hand_);
    lock.lock();
    in_hand_ = {};
    rests_.notify_all();
  }
  for (const Place& place : orders_) settle(*place.piece, State::none);
  orders_.clear();
}

void PageKeeper::fulfil(const Place& place) {
  const std::lock_guard registering(registering_);
  const Status status = register_piece(place);
  const std::lock_guard lock(mutex_);
  start_locked();  // To tidy up.
  if (status.ok()) kept_.push_back(place);
  settle(*place.piece, status.ok() ? State::kept : State::none);
}

void PageKeeper::bring(KeptFile& file, std::uint64_t index) {
  KeptPiece* const piece = file.piece(index);
  State expected = State::none;
  if (piece == nullptr || piece->state() == State::kept) return;
  if (piece->state_.compare_exchange_strong(expected, State::wanted)) fulfil({&file, piece, index});
  else piece->wait_while_wanted();
}

// With the lock held: what could not be unregistered, and memory that others need more.
void PageKeeper::tidy_up() {
  std::erase_if(leftovers_, [](const Leftover& each) { return each.device->unregister_pages(each.mapping.data()); });
  const MemoryRoom room = memory_room();
  if (room.total > 0 && room.available < room.total / kRoomPart) {
    for (std::size_t count = kept_.size() / 2 + 1; count > 0 && evict_oldest(); --count) {
    }
  }
}

Status PageKeeper::register_piece(const Place& place) {
  constexpr const char* kStep = "keep a piece of the file";
  KeptPiece& piece = *place.piece;
  const std::uint64_t begin = place.index * kPiece;
  const Result<int> fd = place.file->file().descriptor(Way::buffered);
  if (!fd.ok()) return fd.status();
  const Result<std::uint64_t> size = place.file->file().size();
  const std::uint64_t bytes = size.ok() && *size > begin ? std::min(align_up(*size - begin, kPage), kPiece) : 0;
  // Until it is worth a good deal more, where it cannot be had.
  piece.saving_.store(-kRetryAfter * premium(bytes, false), std::memory_order_relaxed);
  const bool is_there = place.file->terms().only_by_pages || storage_.is_resident(*fd, begin, bytes);
  if (bytes == 0 || !is_there) return failure(Code::limit, kStep);
  if (!make_room(bytes)) return failure(Code::limit, kStep);
  const auto start = std::chrono::steady_clock::now();
  bool writable = place.file->terms().writable;
  Result<PageMapping> mapping = PageMapping::open(*fd, begin, bytes, writable);
  if (!mapping.ok() && writable && mapping.status().is_errno(EPERM)) {  // Sealed, as files of memory may be.
    writable = false;
    mapping = PageMapping::open(*fd, begin, bytes, writable);
  }
  Device& device = place.file->device();
  const Status status = mapping.ok() ? device.register_pages(mapping->data(), bytes, writable) : mapping.status();
  if (!status.ok()) {
    kept_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    return status;
  }
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
  if (bytes == kPiece) average(register_cost_, bytes, static_cast<std::uint64_t>(took.count()));
  piece.begin_ = begin;
  piece.writable_.store(writable, std::memory_order_relaxed);
  piece.mapping_ = std::move(*mapping);
  piece.used_at_.store(now(), std::memory_order_relaxed);
  piece.saving_.store(0, std::memory_order_relaxed);
  return status;
}

// Reserves the bytes.
bool PageKeeper::make_room(std::uint64_t bytes) {
  if (bytes > rules_.bytes_max) return false;
  const std::lock_guard lock(mutex_);
  while (kept_bytes() + bytes > rules_.bytes_max) {
    if (!evict_oldest()) return false;
  }
  kept_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

// With the lock held. Of pieces that were used by the same request, the first is the oldest.
bool PageKeeper::evict_oldest() {
  std::vector<std::size_t> order(kept_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto used_at = [this](std::size_t i) { return kept_[i].piece->used_at_.load(std::memory_order_relaxed); };
  std::stable_sort(order.begin(), order.end(),
                   [&](auto first, auto second) { return used_at(first) < used_at(second); });
  for (const std::size_t i : order) {
    if (!take_away(kept_[i])) continue;
    kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }
  return false;
}

// With the lock held. False where it is in use.
bool PageKeeper::take_away(const Place& place) {
  KeptPiece& piece = *place.piece;
  piece.state_.store(State::leaving);
  if (piece.users_.load() != 0) {
    settle(piece, State::kept);
    return false;
  }
  unregister(*place.file, piece);
  settle(piece, State::none);
  return true;
}

void PageKeeper::unregister(KeptFile& file, KeptPiece& piece) {
  kept_bytes_.fetch_sub(piece.mapping_.size(), std::memory_order_relaxed);
  PageMapping mapping = std::move(piece.mapping_);
  if (file.device().unregister_pages(mapping.data())) return;
  leftovers_.push_back({&file.device(), std::move(mapping)});
}

void PageKeeper::drop(KeptFile& file, KeptPiece& piece) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Place& place) { return place.piece == &piece; });
  if (found == kept_.end() || found->file != &file) return;
  // Where another request holds it, that one will find the same.
  if (take_away(*found)) kept_.erase(found);
}

void PageKeeper::forget(File& file) {
  KeptFile* first = file.kept().exchange(nullptr);
  if (first == nullptr) return;
  std::unique_lock lock(mutex_);
  const auto ours = [&](const Place& place) { return place.file != nullptr && &place.file->file() == &file; };
  std::erase_if(orders_, [&](const Place& place) {
    if (!ours(place)) return false;
    settle(*place.piece, State::none);
    return true;
  });
  rests_.wait(lock, [&] { return !ours(in_hand_); });
  std::erase_if(kept_, [&](const Place& place) {
    if (!ours(place)) return false;
    unregister(*place.file, *place.piece);
    return true;
  });
  std::erase_if(files_, [&](const std::unique_ptr<KeptFile>& kept) { return &kept->file() == &file; });
}

}  // namespace penstock::core
