// SPDX-License-Identifier: Apache-2.0

// The facts of a report (usage_report.h) besides the counters: to which files requests went and how long they took, and
// for how much of the time any was under way. Kept only where a report was asked for: else a request asks its file, and
// finds null. Thread-safe; counting takes no lock and allocates nothing.
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
#include "core/io.h"

namespace penstock::core {

// Adds up the time during which at least one of all that begin and end is under way. One word has how many there are
// and since when, so that no thread sees the one without the other.
class BusyTime {
 public:
  using Nanoseconds = std::uint64_t;  // By a clock that does not go back.

  void begin(Nanoseconds now);
  void end(Nanoseconds now);
  // The time of requests that have ended.
  Nanoseconds total() const { return busy_us_.load(std::memory_order_relaxed) * 1000; }

 private:
  std::atomic<std::uint64_t> word_{0};
  std::atomic<std::uint64_t> busy_us_{0};
};

// Bytes and requests of one file, by each of the two operations.
struct FileSums {
  struct Sum {
    std::uint64_t bytes = 0;
    std::uint64_t requests = 0;     // Failed ones, too.
    std::uint64_t nanoseconds = 0;  // From their beginnings to their ends; several at once count several times.
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

  // The time, which end() is to be given: once for each beginning, on any thread.
  std::uint64_t begin();
  void end(Op op, std::uint64_t bytes, bool failed, std::uint64_t began);
  FileSums sums() const;

 private:
  // A thread has one to itself as long as there are few threads, like the counters' shards.
  struct alignas(64) Shard {
    FileSums sums;
  };
  static constexpr unsigned kShards = 16;

  BusyTime& busy_;
  std::array<Shard, kShards> shards_{};
};

class Usage {
 public:
  static constexpr std::size_t kFilesMax = 1024;  // With rows of their own, of a KiB each; all later ones share one.

  // By the name that the kernel knows the descriptor's file by. The row lives as long as this.
  FileUsage& file_of(int descriptor);
  FileUsage& file_named(const std::string& name);

  struct File {
    std::string name;
    FileSums sums;
  };
  // Files that had at least one request.
  std::vector<File> files() const;
  // The sums of all files without a row, and how often one was opened.
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
