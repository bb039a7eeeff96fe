// SPDX-License-Identifier: Apache-2.0

// Threads that keep requests in flight and count their outcomes: the loop under bench, demo and gdsio. A Transport
// carries a request out. The loop reads the clock once per submission and once per harvest, and allocates nothing.
#pragma once

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

// A map with one bit a block; several threads may set bits at the same time.
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
  std::vector<std::uint64_t> bytes_by_path = std::vector<std::uint64_t>(penstock_path_count());
  std::uint64_t direct_bytes = 0;
  std::uint64_t cached_bytes = 0;
  struct Chosen {
    std::uint64_t bytes = 0;  // The bytes of requests.
    int refused_path = -1;    // The path that was refused for the reason.
  };
  std::map<std::pair<int, int>, Chosen> chosen;  // By the path taken and the reason for which a better one was not.
  int path_reason = PENSTOCK_REASON_NONE;        // The reason why the path itself was slower than it could be.
  std::uint64_t latency_sum_ns = 0;
  std::uint64_t latency_least_ns = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t latency_most_ns = 0;
  Histogram latency_ns;

  void add(const penstock_report& report, std::uint64_t latency);
  void merge(const Tally& other);
};

// Carries out the requests of one thread. It is made, used and destroyed on that thread, and its destructor waits for
// the requests in flight. The i-th request in flight uses slot i of its memory.
class Transport {
 public:
  // `slot_size` is room for the largest request.
  Transport(Arena arena, std::uint64_t slot_size) : arena_(std::move(arena)), slot_size_(slot_size) {}
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Begins the request of a free slot, or carries it out completely.
  virtual void start(unsigned slot, const Extent& extent) = 0;
  // Waits for at least one request if any is in flight, and writes those that are done; a completion's cookie is its
  // slot.
  virtual unsigned reap(std::span<Completion> done) = 0;

  Arena& arena() { return arena_; }
  std::uint64_t slot_size() const { return slot_size_; }

 private:
  Arena arena_;
  const std::uint64_t slot_size_;
};

// The slot size for requests of at most `bytes`: aligned, because direct I/O into a slot needs that.
std::uint64_t slot_size_for(std::uint64_t bytes);

// The work of one thread.
struct Part {
  std::vector<std::string> paths;  // The paths of its files, for errors.
  std::uint64_t block_size;        // The size of the largest request.
  unsigned depth = 1;              // The number of requests in flight.
  std::unique_ptr<ExtentSource> extents;
  std::function<std::unique_ptr<Transport>()> open;  // Called on the thread, before the clock runs.
};

// The outcomes of one interval of a run.
struct Interval {
  double begin = 0, end = 0;  // Seconds since the run began.
  std::uint64_t bytes = 0;
  Histogram latency_ns;  // All operations that ended within the interval.
};

// The settings that all threads share.
struct RunSettings {
  std::string label;  // Shown in the progress line.
  bool is_write = false;
  double seconds = 0;             // 0: until the extents end.
  std::uint64_t bytes_total = 0;  // The sum of all extents, for the progress line.
  std::uint64_t seed = 1;
  // Fills the memory with random bytes before the clock runs; otherwise with one byte value.
  bool random_fill = true;
  const Content* content = nullptr;  // Reads are compared with it, writes write it; null: neither.
  BlockMap* written = nullptr;       // Receives the blocks that were written; null: not wanted.
  // Called on the caller's thread a few times a second, with what was done so far. The run ends if it returns false.
  std::function<bool(double seconds, std::uint64_t bytes)> observe;
  // Called on the same thread after each interval_seconds with what was done in that time; the last interval is
  // shorter.
  double interval_seconds = 0;
  std::function<void(const Interval&)> on_interval;
};

struct JobResult {
  Tally tally;
  double seconds = 0;
  double cpu_seconds = 0;
  double waiting_seconds = 0;  // The longest that any thread waited for a processor; 0 if the kernel does not say.
  bool was_interrupted = false;
};

// Returns when all threads have ended; if any failed, throws the exception of the first one. At Ctrl-C the run ends
// early and the result says so.
JobResult run_parts(const RunSettings& settings, std::vector<Part> parts);

// The seconds of processor time that this process has used, user and system.
double cpu_seconds();

}  // namespace penstock::tools
