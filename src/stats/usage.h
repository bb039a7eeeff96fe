// SPDX-License-Identifier: Apache-2.0

// The facts of a report (usage_report.h) that are not counters: the files of the requests, their durations, and the
// time in which any was in flight. Kept only if a report was requested; otherwise File::usage() is null. Thread-safe;
// counting takes no lock and allocates nothing.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "core/io.h"

namespace penstock::core {

// Sums the time in which at least one request is in flight. One word holds their number and the start time, so that
// threads always see both together.
class BusyTime {
 public:
  using Nanoseconds = std::uint64_t;  // From a monotonic clock.

  void begin(Nanoseconds now);
  void end(Nanoseconds now);
  // The total length of all periods that have ended.
  Nanoseconds total() const { return busy_us_.load(std::memory_order_relaxed) * 1000; }

 private:
  std::atomic<std::uint64_t> word_{0};
  std::atomic<std::uint64_t> busy_us_{0};
};

// Bytes and requests of one file, for each operation.
struct FileSums {
  struct Sum {
    std::uint64_t bytes = 0;
    std::uint64_t requests = 0;     // Failed ones count, too.
    std::uint64_t nanoseconds = 0;  // The sum of their durations; concurrent requests all count.
  };
  std::array<Sum, 2> by_op;
  std::uint64_t failed = 0;

  std::uint64_t bytes() const { return by_op[0].bytes + by_op[1].bytes; }
  std::uint64_t requests() const { return by_op[0].requests + by_op[1].requests; }
  std::uint64_t nanoseconds() const { return by_op[0].nanoseconds + by_op[1].nanoseconds; }
  void add(const FileSums& other);
};

class FileUsage {
 public:
  explicit FileUsage(BusyTime& busy) : busy_(busy) {}

  // Returns the time, for end(). Called once for each request, on any thread.
  std::uint64_t begin();
  void end(Op op, std::uint64_t bytes, bool failed, std::uint64_t began);
  FileSums sums() const;

 private:
  // Few threads share a shard, as in the counters.
  struct alignas(64) Shard {
    FileSums sums;
  };
  static constexpr unsigned kShards = 16;

  BusyTime& busy_;
  std::array<Shard, kShards> shards_{};
};

// Counts one request, from here to end(); counts nothing if the file's usage is null.
class UsageCount {
 public:
  UsageCount() = default;
  explicit UsageCount(FileUsage* usage) : usage_(usage), began_(usage == nullptr ? 0 : usage->begin()) {}
  void end(Op op, std::uint64_t bytes, const Status& status) const {
    if (usage_ != nullptr) usage_->end(op, bytes, !status.ok(), began_);
  }

 private:
  FileUsage* usage_ = nullptr;
  std::uint64_t began_ = 0;
};

class Usage {
 public:
  // Files with rows of their own, of a KiB each; all later files share one row.
  static constexpr std::size_t kFilesMax = 1024;

  // Returns the entry of the file that a descriptor refers to, by the kernel's name for it (/proc/self/fd). The entry
  // lives as long as this object.
  FileUsage& file_of(int descriptor);
  FileUsage& file_named(const std::string& name);

  struct File {
    std::string name;
    FileSums sums;
  };
  // Files with at least one request.
  std::vector<File> files() const;
  // The sums of all files without a row of their own, and how often such a file was opened.
  FileSums others() const { return others_.sums(); }
  std::uint64_t others_opened() const { return others_opened_.load(std::memory_order_relaxed); }
  const BusyTime& busy() const { return busy_; }

 private:
  BusyTime busy_;
  mutable Mutex mutex_;
  std::map<std::string, std::unique_ptr<FileUsage>> files_ GUARDED_BY(mutex_);
  FileUsage others_{busy_};
  std::atomic<std::uint64_t> others_opened_{0};
};

}  // namespace penstock::core
