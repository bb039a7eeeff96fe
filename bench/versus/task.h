// SPDX-License-Identifier: Apache-2.0

// What one side is asked to do, and what it answers. Values, which travel between processes as JSON.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace penstock::versus {

struct Task {
  std::string what;  // A name of side.cc's table.
  std::string file;
  std::uint64_t size = 0;   // Bytes of the file that take part, from its start.
  std::uint64_t block = 0;  // Bytes of one small request.
  std::uint64_t piece = 0;  // Bytes of one paged block, of which a request has several.
  unsigned threads = 1;
  unsigned depth = 1;      // Requests in flight for a thread; entries of a batch.
  unsigned times = 1;      // Small requests; whole transfers.
  double seconds = 0;      // Small requests go on for so long, where it is not 0.
  bool direct = false;     // Open with O_DIRECT.
  bool fresh = false;      // A write: to a new file.
  bool write = false;      // Where a task can do either.
  bool verify = false;     // Compare the bytes, outside the clock.
  std::uint64_t seed = 1;  // Of random offsets.
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Task, what, file, size, block, piece, threads, depth, times, seconds, direct, fresh,
                                   write, verify, seed)

// Times are seconds; begin and end by a clock that all processes of the machine share.
struct Sample {
  double begin = 0;
  double end = 0;
  double cpu = 0;  // Of the whole process, kernel included, until what the task left behind was tidied up.
  std::uint64_t bytes = 0;
  std::uint64_t operations = 0;
  double p50 = 0;
  double p99 = 0;

  double seconds() const { return end - begin; }
  // Of processes that worked at the same time.
  void merge(const Sample& other) {
    begin = std::min(begin, other.begin);
    end = std::max(end, other.end);
    cpu += other.cpu;
    bytes += other.bytes;
    operations += other.operations;
    p50 = std::max(p50, other.p50);
    p99 = std::max(p99, other.p99);
  }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Sample, begin, end, cpu, bytes, operations, p50, p99)

}  // namespace penstock::versus
