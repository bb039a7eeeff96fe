// SPDX-License-Identifier: Apache-2.0

// What this process's children and all that they start were seen to do, through /proc alone: which libcufile they had,
// whether they opened a session of Penstock's, and what they read without. Nothing of theirs is touched. What ends
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
  std::uint64_t bytes = 0;  // Of the file, not of what was read of it.
  bool is_mapped = false;
  bool is_direct = false;  // Opened with O_DIRECT.
};

// What a session had moved at the last look.
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
  // That its loader has mapped some library. What is preloaded comes first, so what is not there by then will not come.
  bool has_loaded = false;
  std::vector<SessionSeen> sessions;      // At the last look that found any.
  std::uint64_t read_call_bytes = 0;      // By read() and its like, whatever it was read from.
  std::uint64_t storage_bytes = 0;        // That storage was read for it, by whatever calls.
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
  static constexpr std::size_t kFilesMax = 256;  // Of a process.
  static constexpr std::size_t kProcessesMax = 4096;

  void look();
  // How long to wait for the next look: short at first, for programs that do not live long, and while a program's
  // loader has not come to its libraries; then so that looking takes no more than a hundredth of one CPU.
  std::chrono::nanoseconds pause() const;
  // A child has ended, and nobody has waited for it: the kernel still says how much it read.
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
  std::vector<ProcessSeen> replaced_;  // Whose numbers others have now.
  unsigned looks_ = 0;
  bool is_loading_ = false;  // Some process, at the last look.
  std::chrono::nanoseconds took_{};
};

// Of the text of /proc/PID/io: the number behind "rchar: "; 0 where there is none.
std::uint64_t number_in(std::string_view io, std::string_view name);

}  // namespace penstock::tools
