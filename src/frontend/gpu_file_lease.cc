// SPDX-License-Identifier: Apache-2.0

// The lease under which kernels use a file's pages: taken, ended, and taken again.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "frontend/gpu_file.h"
#include "path/pagecache/pagecache_reasons.h"

namespace penstock::core {
namespace {

Reason reason_of_lease(int error) { return error == EAGAIN ? resident_reason::written : resident_reason::no_lease; }

}  // namespace

Reason GpuFile::take_lease(int& error) {
  Result<UniqueFd> own = Lease::reopen(file_->own_descriptor());
  error = own.status().code;
  if (!own.ok()) return resident_reason::no_lease;
  leased_ = GuardedFd(std::move(*own));
  error = lease_.take(leased_.get(), Lease::Wanted::shared);
  was_leased_ = error == 0;
  may_be_held_.store(was_leased_);
  return was_leased_ ? Reason::none : reason_of_lease(error);
}

std::chrono::nanoseconds GpuFile::look(bool is_asked_back) {
  if (!is_asked_back && !is_unwanted_.load()) return std::chrono::hours(1);
  if (!is_ready_.load()) return std::chrono::milliseconds(1);
  return end_lease();
}

// Nobody changes the file before kernels are told, nor before all looks from before that are too old.
std::chrono::nanoseconds GpuFile::end_lease() {
  if (may_be_held_.exchange(false)) {
    ring_->raise_generation();
    told_at_ = std::chrono::steady_clock::now();
  }
  constexpr std::chrono::nanoseconds kWait(gpu::kChangeWaitsNs);
  const auto waited = std::chrono::steady_clock::now() - told_at_;
  if (waited < kWait) return kWait - waited;
  lease_.give_back(leased_.is_ours());
  is_given_back_.store(may_stand_again_.load());
  return std::chrono::hours(1);
}

// It is taken on a thread of its own, which may wait for the device meanwhile. All threads of the ring call this, and
// none waits in it.
void GpuFile::take_again_soon() {
  if (is_taking_.load() || !again_mutex_.try_lock()) return;
  const MutexLock lock(again_mutex_, std::adopt_lock);
  if (is_taking_.load() || !is_given_back_.load()) return;
  const auto now = std::chrono::steady_clock::now();
  if (again_at_ == again_at_.min()) again_at_ = now + terms_.again_after;
  if (now < again_at_) return;
  again_at_ = again_at_.min();
  if (taker_) ::pthread_join(*std::exchange(taker_, std::nullopt), nullptr);  // It has done its last.
  is_given_back_.store(false);
  is_taking_.store(true);
  pthread_t thread;
  const auto body = [](void* file) { static_cast<GpuFile*>(file)->take_again(); };
  if (start_thread(thread, "penstock-again", body, this)) {
    taker_ = thread;
    return;
  }
  is_taking_.store(false);
  is_given_back_.store(true);
}

void GpuFile::join_taker() {
  const MutexLock lock(again_mutex_);
  if (taker_) ::pthread_join(*std::exchange(taker_, std::nullopt), nullptr);
}

// The keeper may end the lease at any moment behind take(): it raises the generation once more then. If what was
// kept cannot be published, or only in part, the keeper ends the lease in the same way.
void GpuFile::take_again() {
  const std::uint32_t generation = ring_->generation();
  is_unwanted_.store(false);
  {
    const MutexLock lock(mutex_);
    is_standing_ = false;
  }
  resident_bytes_.store(0);
  const bool may_take = generation < gpu::kGenerations && may_stand_again_.load() && leased_.is_ours();
  bool is_taken = false;
  if (may_take && has_its_size()) {
    may_be_held_.store(true);
    is_taken = lease_.take(leased_.get(), Lease::Wanted::shared) == 0;
    if (!is_taken) may_be_held_.store(false);
  }
  if (!is_taken) is_given_back_.store(may_take);
  else if (!stand_again(generation)) is_unwanted_.store(true);
  is_taking_.store(false);
}

// Where the file has become shorter, its end is found by the ring alone.
bool GpuFile::has_its_size() {
  const Result<std::uint64_t> size = file_->size();
  return size.ok() && *size >= value_.size;
}

bool GpuFile::stand_again(std::uint32_t generation) {
  if (!has_its_size()) return false;
  keep_pages(value_.size);
  if (ring_->is_over()) return false;
  const MutexLock lock(mutex_);
  is_standing_ = publish(pages_.back(), generation).ok();
  if (!is_standing_) may_stand_again_.store(false);
  return is_standing_;
}

// Kernels that find the generation find the table, too. They load single words of it meanwhile, and may go on to load
// from a place that is gone.
Status GpuFile::publish(const ResidentPages& pages, gpu::Word generation) {
  const bool is_first = table_.empty();
  std::vector<gpu::Long> table = table_;
  for (gpu::Long& place : table) place |= place != 0 ? 1 : 0;
  table.resize((value_.size + Extent::kBytes - 1) / Extent::kBytes);
  const std::span<std::byte* const> addresses = pages.addresses();
  for (std::size_t i = 0; i < std::min(addresses.size(), table.size()); ++i) {
    if (addresses[i] == nullptr) continue;
    const Result<void*> address = device_.pages()->address_in_kernels(addresses[i]);
    if (!address.ok()) return address.status();
    const auto place = reinterpret_cast<gpu::Long>(*address);
    // A kernel may be about to load from where the extent was, so it is never another place.
    if (table[i] == 0 || table[i] == (place | 1)) table[i] = place;
  }
  Status status = success();
  if (is_first && !table.empty()) status = upload(value_.extents, table.data(), table.size() * sizeof table[0]);
  if (is_first) table_ = table;
  for (std::size_t i = 0; status.ok() && i < table.size(); ++i) {
    if (table[i] != table_[i]) status = upload_place(i, table[i]);
  }
  return status.ok() ? upload(&value_.standing->generation, &generation, sizeof generation) : status;
}

// The driver need not copy a word as a whole, and kernels look at it meanwhile: so it is odd, and nothing to load from,
// from the first byte to the last.
Status GpuFile::upload_place(std::size_t extent, gpu::Long place) {
  static_assert(std::endian::native == std::endian::little, "the first byte has the lowest bit");
  const gpu::Long gone = place | 1;
  const gpu::Long* const to = value_.extents + extent;
  Status status = upload(to, &gone, 1);
  if (status.ok()) status = upload(to, &gone, sizeof gone);
  if (status.ok() && place != gone) status = upload(to, &place, 1);
  if (status.ok()) table_[extent] = place;
  return status;
}

}  // namespace penstock::core
