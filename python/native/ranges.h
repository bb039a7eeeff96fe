// SPDX-License-Identifier: Apache-2.0

// Reads ranges of files ahead, a few at a time, by threads that never need Python: while the program works on one
// range, the next ones arrive. A file is opened once for consecutive ranges in it, and checked before and after each: a
// file that was truncated or replaced since its header was read is reported.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "python/native/memory.h"
#include "python/native/report.h"
#include "python/native/session.h"

namespace penstock::python {

class Ranges {
 public:
  // Identifies a file and its state: device, inode, size in bytes, change time in nanoseconds.
  using Identity = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::int64_t>;

  Ranges(std::shared_ptr<SessionHandle> session, unsigned threads);
  ~Ranges();
  Ranges(const Ranges&) = delete;
  Ranges& operator=(const Ranges&) = delete;

  // Reads from `offset` on until the memory is full, once a thread is free. Raises OSError if the file cannot be
  // opened, and the errors of penstock.File(). Returns the range's number. Call it with the GIL held. held: a
  // descriptor of the file, or -1 to open it by its path.
  std::uint64_t begin(const nanobind::bytes& path, const Identity& identity, nanobind::handle memory,
                      std::int64_t offset, nanobind::handle stream, int held);
  // Waits for the range's end. Returns its Report, or nothing if the file has changed. Raises the error of the read.
  // Call it once for each range.
  std::optional<Report> wait(std::uint64_t number);
  // Waits for the ranges that have begun, and drops the others. Not at the end of the process, nor in a forked child,
  // where the two above raise ClosedError.
  void close();

 private:
  struct Opened;
  struct Range;
  struct State;  // Never freed at process exit or in a forked child.

  void check_is_own() const;
  std::shared_ptr<Opened> open(const char* path, const Identity& identity, int held);
  static void run(State& state);
  static void read(Range& range);

  const pid_t process_ = ::getpid();
  std::unique_ptr<State> state_;
};

void bind_ranges(nanobind::module_& module);

}  // namespace penstock::python
