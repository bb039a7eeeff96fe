// SPDX-License-Identifier: Apache-2.0

// The measuring part of penstock bench and demo: threads that move blocks of files through a session, by its
// synchronous calls or by its queues.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/common/runner.h"

namespace penstock::tools {

struct JobFile {
  const File* file = nullptr;
  std::string path;  // For errors.
  Range range;       // All files of a job have the same block size.
};

struct Job {
  Session* session = nullptr;
  std::vector<JobFile> files;
  std::string label;  // For the progress line.
  bool is_write = false;
  bool is_random = false;
  unsigned threads = 1;
  unsigned depth = 1;       // 1: synchronous calls; more: a queue for each thread.
  double seconds = 0;       // 0: however long it takes.
  bool is_endless = false;  // Goes on until the time is over or `observe` ends it.
  std::uint64_t seed = 1;
  unsigned gpu = 0;
  bool host_memory = false;
  bool register_memory = false;
  const Content* content = nullptr;  // Reads are compared with it, writes write it; null: neither.
  BlockMap* written = nullptr;       // Receives the blocks that were written; null: not wanted.
  // The same as in RunSettings, with the next two.
  std::function<bool(double seconds, std::uint64_t bytes)> observe;
  double interval_seconds = 0;
  std::function<void(const Interval&)> on_interval;
};

std::uint64_t bytes_of(const Job& job);  // The sum of all ranges.
std::uint64_t block_size_of(const Job& job);

JobResult run_job(const Job& job);

}  // namespace penstock::tools
