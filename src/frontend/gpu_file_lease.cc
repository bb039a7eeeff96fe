// SPDX-License-Identifier: Apache-2.0

// The lease under which kernels use a file's pages: taken, ended, and taken again.
#include <algorithm>
#include <cerrno>
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
  is_leased_.store(was_leased_);
  return was_leased_ ? Reason::none : reason_of_lease(error);
}

std::chrono::nanoseconds GpuFile::look(bool is_asked_back) {
  if (!is_asked_back) return std::chrono::hours(1);
  if (!is_ready_.load()) return std::chrono::milliseconds(1);
  return end_lease();
}

// Nobody changes the file before kernels are told, nor before all looks from before that are too old.
std::chrono::nanoseconds GpuFile::end_lease() {
  if (is_leased_.exchange(false)) {
    ring_->raise_generation();
    told_at_ = std::chrono::steady_clock::now();
  }
  constexpr std::chrono::nanoseconds kWait(gpu::kChangeWaitsNs);
  const auto waited = std::chrono::steady_clock::now() - told_at_;
  if (waited < kWait) return kWait - waited;
  lease_.give_back(leased_.is_ours());
  is_given_back_.store(true);
  return std::chrono::hours(1);
}

// On a thread of its own, which may wait for the device while this one answers kernels.
void GpuFile::take_again_soon() {
  const auto now = std::chrono::steady_clock::now();
  if (again_at_ == again_at_.min()) again_at_ = now + terms_.again_after;
  if (now < again_at_) return;
  again_at_ = again_at_.min();
  if (taker_) ::pthread_join(*std::exchange(taker_, std::nullopt), nullptr);
  is_given_back_.store(false);
  pthread_t thread;
  const auto body = [](void* file) { static_cast<GpuFile*>(file)->take_again(); };
  if (start_thread(thread, "penstock-again", body, this)) taker_ = thread;
  else is_given_back_.store(true);
}

// The keeper may end the lease at any moment behind take(): it raises the generation once more then.
void GpuFile::take_again() {
  const std::uint32_t generation = ring_->generation();
  resident_bytes_.store(0);
  is_leased_.store(true);
  const bool is_taken =
      generation < gpu::kGenerations && leased_.is_ours() && lease_.take(leased_.get(), Lease::Wanted::shared) == 0;
  if (is_taken && stand_again(generation)) return;
  is_leased_.store(false);
  if (is_taken) lease_.give_back(leased_.is_ours());
  is_given_back_.store(generation < gpu::kGenerations);
}

// Where the file has become shorter, its end is found by the ring alone.
bool GpuFile::stand_again(std::uint32_t generation) {
  const Result<std::uint64_t> size = file_->size();
  if (!size.ok() || *size < value_.size) return false;
  keep_pages(value_.size);
  const MutexLock lock(mutex_);
  return publish(pages_.back(), generation).ok();
}

// Kernels that find the generation find the table, too. They load single words of it meanwhile, and may go on to load
// from a place that is gone.
Status GpuFile::publish(const ResidentPages& pages, gpu::Word generation) {
  std::vector<gpu::Long> table = table_;
  for (gpu::Long& place : table) place |= place != 0 ? 1 : 0;
  const bool is_first = table.empty();
  table.resize((value_.size + Extent::kBytes - 1) / Extent::kBytes);
  const std::span<std::byte* const> addresses = pages.addresses();
  for (std::size_t i = 0; i < std::min(addresses.size(), table.size()); ++i) {
    if (addresses[i] == nullptr) continue;
    const Result<void*> address = device_.pages()->address_in_kernels(addresses[i]);
    if (!address.ok()) return address.status();
    table[i] = reinterpret_cast<gpu::Long>(*address);
  }
  Status status = success();
  if (is_first && !table.empty()) status = upload(value_.extents, table.data(), table.size() * sizeof table[0]);
  for (std::size_t i = 0; !is_first && status.ok() && i < table.size(); ++i) {
    if (table[i] != table_[i]) status = upload(value_.extents + i, &table[i], sizeof table[i]);
  }
  table_ = std::move(table);
  return status.ok() ? upload(&value_.standing->generation, &generation, sizeof generation) : status;
}

}  // namespace penstock::core
