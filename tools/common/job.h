// SPDX-License-Identifier: Apache-2.0

// The measuring part of penstock bench (and of demo): threads that move blocks of one file through a session, by its
// synchronous calls or by its queues.
#pragma once

#include <cstdint>
#include <string>

#include "tools/common/runner.h"

namespace penstock::tools {

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

JobResult run_job(const Job& job);

}  // namespace penstock::tools
