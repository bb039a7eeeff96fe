// SPDX-License-Identifier: Apache-2.0

// penstock stats --odirect PID: the part of a job's bytes that went around the page cache, what became of the rest, and
// what stands in the way of more in the files that the job has open. It only looks; file names are as the job sees
// them.
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
  unsigned direct = 0;    // Descriptors with O_DIRECT.
  unsigned buffered = 0;  // Descriptors without O_DIRECT.
  std::string obstacle;   // A certain reason for copies by the CPU or for a refusal by the kernel, or "".
  std::string remedy;
};

// The bytes that a process's sessions moved by one operation.
struct DirectSum {
  std::uint64_t bytes = 0;
  std::uint64_t direct = 0;  // The part that went around the page cache.
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

// Looks at a process. Without a session it has no sums; all else is known. Throws a Failure as look_at() does.
DirectShare look_at_job(pid_t pid);

std::string job_text(const DirectShare& job);
nlohmann::ordered_json job_json(const DirectShare& job);

// True if a line of /proc/PID/fdinfo/N shows O_DIRECT among the flags. Nothing if there is no such line.
std::optional<bool> is_direct_by(const std::string& fdinfo);

}  // namespace penstock::tools
