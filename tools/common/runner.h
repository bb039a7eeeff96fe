// SPDX-License-Identifier: Apache-2.0

// Threads that keep requests in flight and count their outcomes: the loop under bench, demo and gdsio. A Transport
// tells what a request is. The loop costs one clock reading per submission, one per harvest, and no allocation.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "penstock/penstock.hpp"
#include "tools/common/arena.h"
#include "tools/common/content.h"
#include "tools/common/extents.h"
#include "tools/common/histogram.h"

namespace penstock::tools {

// One bit a block; threads set bits at the same time.
class BlockMap {
 public:
  explicit BlockMap(const Range& range) : range_(range), words_((range.block_count() + 63) / 64) {}
  void set(std::uint64_t file_offset) {
    const std::uint64_t block = (file_offset - range_.begin) / range_.block_size;
    words_[block / 64].fetch_or(std::uint64_t{1} << block % 64, std::memory_order_relaxed);
  }
  bool test(std::uint64_t block) const {
    return (words_[block / 64].load(std::memory_order_relaxed) >> block % 64 & 1) != 0;
  }

 private:
  Range range_;
  std::vector<std::atomic<std::uint64_t>> words_;
};

struct Tally {
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;
  std::array<std::uint64_t, PENSTOCK_PATH_ROOM> bytes_by_path{};
  std::uint64_t direct_bytes = 0;
  std::uint64_t cached_bytes = 0;
  struct Chosen {
    std::uint64_t bytes = 0;  // Of requests.
    int refused_path = -1;    // The path that the reason speaks of.
  };
  std::map<std::pair<int, int>, Chosen> chosen;  // By the path chosen and the reason that it was not a better one.
  int path_reason = PENSTOCK_REASON_NONE;        // Why the path itself was slower than it could be.
  std::uint64_t latency_sum_ns = 0;
  std::uint64_t latency_least_ns = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t latency_most_ns = 0;
  Histogram latency_ns;

  void add(const penstock_report& report, std::uint64_t latency);
  void merge(const Tally& other);
};

// How one thread's requests travel. It is made, used and destroyed on that thread, and destroying it waits for what is
// in flight. Slot i of its memory is where the i-th request in flight reads to or writes from.
class Transport {
 public:
  // slot_size: room for the largest request.
  Transport(Arena arena, std::uint64_t slot_size) : arena_(std::move(arena)), slot_size_(slot_size) {}
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Begins the request of a free slot, or does all of it.
  virtual void start(unsigned slot, const Extent& extent) = 0;
  // Waits for one request at least, where any is in flight, and writes what is done; the cookie is the slot.
  virtual unsigned reap(std::span<Completion> done) = 0;

  Arena& arena() { return arena_; }
  std::uint64_t slot_size() const { return slot_size_; }

 private:
  Arena arena_;
  const std::uint64_t slot_size_;
};

// The slot size for requests of at most `bytes`: direct I/O in place wants aligned slots.
std::uint64_t slot_size_for(std::uint64_t bytes);

// The work of one thread.
struct Part {
  std::vector<std::string> paths;  // The files', for errors.
  std::uint64_t block_size;        // The largest request's.
  unsigned depth = 1;              // Requests in flight.
  std::unique_ptr<ExtentSource> extents;
  std::function<std::unique_ptr<Transport>()> open;  // Called on the thread, before the clock runs.
};

// The outcomes in one part of a run's time.
struct Interval {
  double begin = 0, end = 0;  // Seconds since the run began.
  std::uint64_t bytes = 0;
  Histogram latency_ns;  // All operations that ended within it.
};

// The settings that all threads share.
struct RunSettings {
  std::string label;  // For the progress line.
  bool is_write = false;
  double seconds = 0;         // 0: until the extents end.
  std::uint64_t bytes_total;  // The sum of all extents, for the progress line.
  std::uint64_t seed = 1;
  bool random_fill = true;           // For the memory, before the clock runs; otherwise one byte over and over.
  const Content* content = nullptr;  // Reads are compared with it, writes carry it; null: neither.
  BlockMap* written = nullptr;       // Blocks that a write has completed; null: not wanted.
  // Called by the caller's thread some times a second with what was done by then. False ends the run.
  std::function<bool(double seconds, std::uint64_t bytes)> observe;
  // Called by the same thread with what was done in each interval of so many seconds, the last one shorter.
  double interval_seconds = 0;
  std::function<void(const Interval&)> on_interval;
};

struct JobResult {
  Tally tally;
  double seconds = 0;
  double cpu_seconds = 0;
  double waiting_seconds = 0;  // For a processor, of the thread that waited longest; 0 where the kernel does not tell.
  bool was_interrupted = false;
};

// Throws what the first thread to fail has thrown, when all have ended. At Ctrl-C it ends early and says so.
JobResult run_parts(const RunSettings& settings, std::vector<Part> parts);

// Seconds of CPU this process has used, user and system.
double cpu_seconds();

}  // namespace penstock::tools
