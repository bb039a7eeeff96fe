// SPDX-License-Identifier: Apache-2.0

// The work of this process's children and of all that they start, seen through /proc alone: which libcufile they had,
// if they opened a session of Penstock's, and how they read without. Nothing of theirs is touched. A process that ends
// between two looks is not seen.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/cufile_mappings.h"

namespace penstock::tools {

// A large file that was open for reading, or mapped.
struct FileSeen {
  std::uint64_t bytes = 0;  // The file's size, not the bytes that were read.
  bool is_mapped = false;
  bool is_direct = false;  // Opened with O_DIRECT.
};

// The bytes that a session had moved at the last look.
struct SessionSeen {
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t operations = 0;
};

struct ProcessSeen {
  pid_t pid = 0;
  std::string command;
  std::string program;  // The file that it runs.
  std::vector<CuFileLibrary> libraries;
  // Its loader has mapped some library. Preloaded libraries come first, so one that is not there by then will not come.
  bool has_loaded = false;
  std::vector<SessionSeen> sessions;      // At the last look that found any.
  std::uint64_t read_call_bytes = 0;      // By read() and its like, from files of any kind.
  std::uint64_t storage_bytes = 0;        // Bytes that storage was read for it, by any calls.
  std::map<std::string, FileSeen> files;  // By name.
  bool has_io_uring = false;
  bool has_aio = false;
  bool has_torch = false;
  bool has_kvikio = false;
  bool is_running = false;  // At the last look.
};

class ProcessFamily {
 public:
  static constexpr std::uint64_t kLargeFile = 1 << 20;
  static constexpr std::size_t kFilesMax = 256;  // In one process.
  static constexpr std::size_t kProcessesMax = 4096;

  void look();
  // How long to wait for the next look: short at first, for programs that do not live long, and while a program's
  // loader has not come to its libraries; then so that looking takes no more than a hundredth of one CPU.
  std::chrono::nanoseconds pause() const;
  // A child has ended, and was not waited for: the kernel still says how much it read.
  void look_at_end_of(pid_t process);

  std::vector<ProcessSeen> processes() const;

 private:
  struct Known {
    std::string began;  // With its number, what tells a process from a later one of the same number.
    ProcessSeen seen;
  };

  void look_at(pid_t process);
  ProcessSeen* known(pid_t process);

  std::map<pid_t, Known> known_;
  std::vector<ProcessSeen> replaced_;  // Processes whose numbers others have now.
  unsigned looks_ = 0;
  bool is_loading_ = false;  // Some process, at the last look.
  std::chrono::nanoseconds took_{};
};

// Finds the number behind "rchar: " in the text of /proc/PID/io, or 0.
std::uint64_t number_in(std::string_view io, std::string_view name);

}  // namespace penstock::tools
