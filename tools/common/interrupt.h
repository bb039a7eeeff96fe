// SPDX-License-Identifier: Apache-2.0

// Ctrl-C and its kin: SIGINT, SIGTERM, SIGHUP. The first one raises a flag, so that a command can stop between two
// requests and put its affairs in order. A thread of its own sees to it that the process ends: where the command has
// not come to rest within 0.8 s (it computes, or its thread is stuck in the kernel), or at a second signal once 0.2 s
// are over, that thread removes what is unfinished and ends the process by the signal.
#pragma once

#include <chrono>
#include <string>

namespace penstock::tools {

void catch_interrupts();  // Once, at the start, before there is another thread. Ignored signals stay ignored.
bool interrupted();       // Cheap.
void throw_if_interrupted();
// Waits until there is something to read from the descriptor (-1: from none), and says whether there is. False at
// `end`, and earlier where a signal came, be it an interruption or another one that is handled.
bool wait_for_input(int fd, std::chrono::steady_clock::time_point end);
// Is called before the process is ended over the command's head, by the thread that does that. Only what a signal's
// handler may do.
void before_forced_end(void (*tidy)());
// Ends the process by the signal that was caught, so that a shell sees it; returns where there was none.
void die_of_interrupt();

// A file that this run has made and that shall not outlast it unless it is kept: removed with this object, or at the
// end that an interruption makes. So is a folder, with all that is in it. Thread-safe.
class Unfinished {
 public:
  enum class Kind : bool { file, folder };

  // The arguments of unlinkat(2). The descriptor stays the caller's.
  Unfinished(int folder_fd, std::string name);
  explicit Unfinished(std::string path, Kind kind = Kind::file);
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished();

  const std::string& name() const { return name_; }
  void keep();  // The file stays, and this object forgets it.
  void remove() const;

 private:
  Unfinished(int folder_fd, std::string name, Kind kind);

  const int folder_fd_;
  const std::string name_;
  const Kind kind_;
  bool is_kept_ = false;
};

}  // namespace penstock::tools
