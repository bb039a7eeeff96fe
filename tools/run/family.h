// SPDX-License-Identifier: Apache-2.0

// Watches this process's children and all processes that they start, through /proc alone: which libcufile they had, if
// they opened a session of Penstock's, and how they read without one. It changes nothing of theirs. A process that ends
// between two looks is not seen.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/cufile_mappings.h"
#include "tools/common/stats_source.h"

namespace penstock::tools {

// A large file that was open for reading, or mapped.
struct FileSeen {
  std::uint64_t bytes = 0;  // The file's size, not the bytes that were read.
  bool is_mapped = false;
  bool is_direct = false;  // Opened with O_DIRECT.
};

struct ProcessSeen {
  pid_t pid = 0;
  std::string command;
  std::string program;  // The file of the program that it runs.
  std::vector<CuFileLibrary> libraries;
  // Its loader has mapped some library. Preloaded libraries come first: one that is not mapped by then never will be.
  bool has_loaded = false;
  // The sums of its sessions at the last look that found any; by core::Op, reads first.
  std::optional<std::array<WayCount, 2>> moved;
  std::uint64_t read_call_bytes = 0;      // Bytes of read() and similar calls, from files of any kind.
  std::uint64_t storage_bytes = 0;        // Bytes that storage read for it, by any calls.
  std::uint64_t write_call_bytes = 0;     // Bytes of write() and similar calls, to files of any kind.
  std::map<std::string, FileSeen> files;  // By name.
  bool has_io_uring = false;
  bool has_aio = false;
  bool has_torch = false;
  bool has_kvikio = false;
  bool is_running = false;  // It was running at the last look.
};

class ProcessFamily {
 public:
  static constexpr std::uint64_t kLargeFile = 1 << 20;
  static constexpr std::size_t kFilesMax = 256;  // In one process.
  static constexpr std::size_t kProcessesMax = 4096;

  void look();
  // The time to wait before the next look. It is short at first, because some programs do not live long, and while a
  // program's loader has not yet mapped its libraries; later, looking takes no more than a hundredth of one CPU.
  std::chrono::nanoseconds pause() const;
  // Looks at a child that has ended and was not waited for: the kernel still knows how much it read.
  void look_at_end_of(pid_t process);

  std::vector<ProcessSeen> processes() const;

 private:
  struct Known {
    std::string began;  // The start time, which with its number tells a process from a later one of the same number.
    ProcessSeen seen;
  };

  void look_at(pid_t process);
  ProcessSeen* known(pid_t process);

  std::map<pid_t, Known> known_;
  std::vector<ProcessSeen> replaced_;  // Processes whose numbers have been reused.
  unsigned looks_ = 0;
  bool is_loading_ = false;  // Some process was loading at the last look.
  std::chrono::nanoseconds took_{};
};

}  // namespace penstock::tools
