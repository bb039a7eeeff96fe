// SPDX-License-Identifier: Apache-2.0

// penstock stats --odirect PID: which share of a job's bytes went around the page cache, what the rest was, and what of
// the files that it has open stands in the way of more. Only looks; the names of the files are the job's own.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/common/stats_source.h"

namespace penstock::tools {

// A regular file or block device that the process has open.
struct FileInUse {
  std::string path;
  std::uint64_t size = 0;
  unsigned direct = 0;    // Descriptors with O_DIRECT,
  unsigned buffered = 0;  // and without.
  std::string obstacle;   // A certain cause of CPU copies, or of the kernel's refusal, or "".
  std::string remedy;
};

// The bytes that a process's sessions moved by one operation.
struct DirectSum {
  std::uint64_t bytes = 0;
  std::uint64_t direct = 0;  // The part around the page cache.
};

struct DirectShare {
  ProcessView process;
  DirectSum sums[2];              // By Op.
  bool has_direct_bytes = false;  // The process's library counts them.
  // The kernel's counts for the whole process, by any calls: bytes fetched from drives and sent to them.
  std::optional<std::uint64_t> drive_bytes[2];
  std::vector<FileInUse> files;  // The ones with obstacles first.
  unsigned files_left_out = 0;
};

// A process without a session has no sums; all else is known of it, too. Throws a Failure as look_at() does.
DirectShare look_at_job(pid_t pid);

std::string job_text(const DirectShare& job);
nlohmann::ordered_json job_json(const DirectShare& job);

// True if the flags in a line of /proc/PID/fdinfo/N have O_DIRECT. Nothing if there is no such line.
std::optional<bool> is_direct_by(const std::string& fdinfo);

}  // namespace penstock::tools
