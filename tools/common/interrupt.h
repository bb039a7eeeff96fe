// SPDX-License-Identifier: Apache-2.0

// Ctrl-C and the like: SIGINT, SIGTERM, SIGHUP. The first signal raises a flag, so that a command can stop between two
// requests and clean up. A separate thread makes sure that the process ends: if the command has not stopped within 0.8
// s (it computes, or its thread is stuck in the kernel), or at a second signal once 0.2 s are over, that thread removes
// unfinished files and ends the process by the signal.
#pragma once

#include <chrono>
#include <string>

namespace penstock::tools {

void catch_interrupts();  // Called once, at the start, before there is another thread. Ignored signals stay ignored.
bool interrupted();       // Cheap.
void throw_if_interrupted();
// Waits until the descriptor has something to read (-1: waits for none), and returns true if it has. Returns false at
// `end`, and earlier if any signal with a handler came.
bool wait_for_input(int fd, std::chrono::steady_clock::time_point end);
// Sets a function that is called just before the process is forced to end, by the thread that forces it. It may do only
// what a signal handler may do.
void before_forced_end(void (*tidy)());
// Ends the process by the signal that was caught, so that a shell sees it; returns if none was caught.
void die_of_interrupt();

// A file or folder that this run has made, and that is removed with this object or when an interruption ends the
// process, unless keep() is called. A folder is removed with all that is in it. Thread-safe.
class Unfinished {
 public:
  enum class Kind : bool { file, folder };

  // Takes the arguments of unlinkat(2). The descriptor still belongs to the caller.
  Unfinished(int folder_fd, std::string name);
  explicit Unfinished(std::string path, Kind kind = Kind::file);
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  ~Unfinished();

  const std::string& name() const { return name_; }
  void keep();  // Lets the file stay; this object forgets it.
  void remove() const;

 private:
  Unfinished(int folder_fd, std::string name, Kind kind);

  const int folder_fd_;
  const std::string name_;
  const Kind kind_;
  bool is_kept_ = false;
};

}  // namespace penstock::tools
