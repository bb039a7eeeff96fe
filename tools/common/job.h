// SPDX-License-Identifier: Apache-2.0

// The measuring part of penstock bench (and of demo): threads that move blocks of files through a session, by its
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
  Range range;       // All files of a job have one block size.
};

struct Job {
  Session* session = nullptr;
  std::vector<JobFile> files;
  std::string label;  // For the progress line.
  bool is_write = false;
  bool is_random = false;
  unsigned threads = 1;
  unsigned depth = 1;       // 1: the synchronous call; more: a queue for each thread.
  double seconds = 0;       // 0: however long it takes.
  bool is_endless = false;  // Until the time is over or observe ends it.
  std::uint64_t seed = 1;
  unsigned gpu = 0;
  bool host_memory = false;
  bool register_memory = false;
  const Content* content = nullptr;  // Reads are compared with it, writes carry it; null: neither.
  BlockMap* written = nullptr;       // Blocks that a write has completed; null: not wanted.
  std::function<bool(double seconds, std::uint64_t bytes)> observe;  // These three as of RunSettings.
  double interval_seconds = 0;
  std::function<void(const Interval&)> on_interval;
};

std::uint64_t bytes_of(const Job& job);  // The sum of all ranges.
std::uint64_t block_size_of(const Job& job);

JobResult run_job(const Job& job);

}  // namespace penstock::tools
