// SPDX-License-Identifier: Apache-2.0

// The measuring part of penstock bench and demo: threads that move blocks of files through a session, by its
// synchronous calls or by its queues.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/common/runner.h"

namespace penstock::tools {

struct JobFile {
  const File* file = nullptr;
  std::string path;  // For errors.
  Range range;       // All files of a job have the same block size.
};

// A job says what all threads share, and how they use the session. bytes_total and random_fill are left as they are.
struct Job : RunSettings {
  Session* session = nullptr;
  std::vector<JobFile> files;
  bool is_random = false;
  unsigned threads = 1;
  unsigned depth = 1;       // 1: synchronous calls; more: a queue for each thread.
  bool is_endless = false;  // Goes on until the time is over or `observe` ends it.
  unsigned gpu = 0;
  bool host_memory = false;
  bool register_memory = false;
};

std::uint64_t bytes_of(const Job& job);  // The sum of all ranges.
std::uint64_t block_size_of(const Job& job);

JobResult run_job(const Job& job);

}  // namespace penstock::tools
