// SPDX-License-Identifier: Apache-2.0

// A task for one side, and its result. Values, passed between processes as JSON.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace penstock::versus {

struct Task {
  std::string what;  // A name from side.cc's table of tasks.
  std::string file;
  std::uint64_t size = 0;   // How many bytes of the file to use, from its start.
  std::uint64_t block = 0;  // Bytes of one small request.
  std::uint64_t piece = 0;  // Bytes of one paged block, of which a request has several.
  unsigned threads = 1;
  unsigned depth = 1;      // Requests in flight per thread; entries of a batch.
  unsigned times = 1;      // Number of small requests, or of whole transfers.
  double seconds = 0;      // If not 0, the duration of small requests.
  bool direct = false;     // Open with O_DIRECT.
  bool fresh = false;      // A write creates a new file.
  bool write = false;      // Writes, if the task can do both.
  bool verify = false;     // Compares the bytes, untimed.
  std::uint64_t seed = 1;  // Seed of random offsets.
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Task, what, file, size, block, piece, threads, depth, times, seconds, direct, fresh,
                                   write, verify, seed)

// Times in seconds; begin and end are from a clock that all processes of the machine share.
struct Sample {
  double begin = 0;
  double end = 0;
  double cpu = 0;  // CPU time of the whole process, kernel included, until it has cleaned up after the task.
  std::uint64_t bytes = 0;
  std::uint64_t operations = 0;
  double p50 = 0;
  double p99 = 0;

  double seconds() const { return end - begin; }
  // Merges a sample of a process that worked in parallel.
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
