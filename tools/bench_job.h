// The measuring part of penstock bench (and of demo): threads that keep requests in flight and count what came of
// them. The loop costs one clock reading per submission, one per harvest, and no allocation.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "content.h"
#include "extents.h"
#include "histogram.h"
#include "penstock/penstock.hpp"

namespace penstock::tools {

// One bit a block; threads set bits at the same time.
class BlockMap {
 public:
  explicit BlockMap(std::uint64_t blocks) : words_((blocks + 63) / 64) {}
  void set(std::uint64_t block) {
    words_[block / 64].fetch_or(std::uint64_t{1} << block % 64, std::memory_order_relaxed);
  }
  bool test(std::uint64_t block) const {
    return (words_[block / 64].load(std::memory_order_relaxed) >> block % 64 & 1) != 0;
  }

 private:
  std::vector<std::atomic<std::uint64_t>> words_;
};

struct Job {
  Session* session = nullptr;
  const File* file = nullptr;
  std::string path;   // Of the file, for errors.
  std::string label;  // For the progress line.
  bool is_write = false;
  bool is_random = false;
  Range range;
  unsigned threads = 1;
  unsigned depth = 1;  // 1: the synchronous call; more: a queue for each thread.
  double seconds = 0;  // 0: as many blocks as the range has.
  std::uint64_t seed = 1;
  unsigned gpu = 0;
  bool host_memory = false;
  bool register_memory = false;
  const Content* content = nullptr;  // Reads are compared with it, writes carry it; null: neither.
  BlockMap* written = nullptr;       // Blocks that a write has completed; null: not wanted.
};

struct Tally {
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;
  std::array<std::uint64_t, PENSTOCK_PATH_COUNT> bytes_by_path{};
  std::uint64_t direct_bytes = 0;
  std::uint64_t cached_bytes = 0;
  // Bytes of requests by the path chosen, the reason it was not a better one, and the path that reason speaks of.
  std::array<std::array<std::uint64_t, PENSTOCK_REASON_COUNT>, PENSTOCK_PATH_COUNT> bytes_by_reason{};
  std::array<std::array<int, PENSTOCK_REASON_COUNT>, PENSTOCK_PATH_COUNT> refused_path{};
  int path_reason = PENSTOCK_REASON_NONE;  // Why the path itself was slower than it could be.
  Histogram latency_ns;

  void add(const penstock_report& report, std::uint64_t latency);
  void merge(const Tally& other);
};

struct JobResult {
  Tally tally;
  double seconds = 0;
  double cpu_seconds = 0;
  bool was_interrupted = false;
};

// Throws the first Failure of any thread, when all have ended. At Ctrl-C it ends early and says so.
JobResult run_job(const Job& job);

// Seconds of CPU this process has used, user and system.
double cpu_seconds();

}  // namespace penstock::tools
