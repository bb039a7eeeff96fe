// SPDX-License-Identifier: Apache-2.0

#include "stats/usage.h"

#include <unistd.h>

#include <climits>
#include <cstdio>

#include "stats/layout.h"
#include "stats/thread_number.h"

namespace penstock::core {
namespace {

// The word's lower bits are the number of requests, its upper bits the start time in microseconds. The time wraps after
// 203 days, longer than any request.
constexpr unsigned kCountBits = 20;
constexpr std::uint64_t kCountMask = (std::uint64_t{1} << kCountBits) - 1;
constexpr std::uint64_t kTimeMask = UINT64_MAX >> kCountBits;

std::uint64_t microseconds(std::uint64_t nanoseconds) { return (nanoseconds / 1000) & kTimeMask; }

std::uint64_t now() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

}  // namespace

void BusyTime::begin(Nanoseconds now) {
  std::uint64_t word = word_.load(std::memory_order_relaxed), next = 0;
  do {
    next = (word & kCountMask) == 0 ? (microseconds(now) << kCountBits | 1) : word + 1;
  } while (!word_.compare_exchange_weak(word, next, std::memory_order_relaxed));
}

void BusyTime::end(Nanoseconds now) {
  const std::uint64_t word = word_.fetch_sub(1, std::memory_order_relaxed);
  if ((word & kCountMask) != 1) return;
  // Another request may have begun and read its clock after us.
  const std::uint64_t passed = (microseconds(now) - (word >> kCountBits)) & kTimeMask;
  if (passed <= kTimeMask / 2) busy_us_.fetch_add(passed, std::memory_order_relaxed);
}

void FileSums::add(const FileSums& other) {
  for (unsigned op = 0; op < by_op.size(); ++op) {
    by_op[op].bytes += load_shared(other.by_op[op].bytes);
    by_op[op].requests += load_shared(other.by_op[op].requests);
    by_op[op].nanoseconds += load_shared(other.by_op[op].nanoseconds);
  }
  failed += load_shared(other.failed);
}

std::uint64_t FileUsage::begin() {
  const std::uint64_t began = now();
  busy_.begin(began);
  return began;
}

void FileUsage::end(Op op, std::uint64_t bytes, bool failed, std::uint64_t began) {
  const std::uint64_t ended = now();
  busy_.end(ended);
  FileSums& sums = shards_[thread_number() % kShards].sums;
  FileSums::Sum& sum = sums.by_op[static_cast<unsigned>(op)];
  add_shared(sum.bytes, bytes);
  add_shared(sum.requests, 1);
  add_shared(sum.nanoseconds, ended - began);
  if (failed) add_shared(sums.failed, 1);
}

FileSums FileUsage::sums() const {
  FileSums all;
  for (const Shard& shard : shards_) all.add(shard.sums);
  return all;
}

FileUsage& Usage::file_of(int descriptor) {
  char link[32], name[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t size = ::readlink(link, name, sizeof name);
  return file_named(size > 0 ? std::string(name, static_cast<std::size_t>(size)) : "a file whose name is not known");
}

FileUsage& Usage::file_named(const std::string& name) {
  const MutexLock lock(mutex_);
  if (const auto known = files_.find(name); known != files_.end()) return *known->second;
  if (files_.size() >= kFilesMax) {
    others_opened_.fetch_add(1, std::memory_order_relaxed);
    return others_;
  }
  return *files_.emplace(name, std::make_unique<FileUsage>(busy_)).first->second;
}

std::vector<Usage::File> Usage::files() const {
  const MutexLock lock(mutex_);
  std::vector<File> all;
  for (const auto& [name, usage] : files_) {
    if (const FileSums sums = usage->sums(); sums.requests() > 0) all.push_back({name, sums});
  }
  return all;
}

}  // namespace penstock::core
