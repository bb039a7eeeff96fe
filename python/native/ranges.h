// SPDX-License-Identifier: Apache-2.0

// Ranges of files that are read ahead, a few at a time, by threads that never need Python: while the program works on
// one range, the next ones arrive. A file is opened once for the ranges that follow each other in it, and looked at
// again before and after each: a file that was cut or replaced since its header was read is reported.
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
  // Which file it is, and whether it is as it was: device, inode, size in bytes, time of change in nanoseconds.
  using Identity = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::int64_t>;

  Ranges(std::shared_ptr<SessionHandle> session, unsigned threads);
  ~Ranges();
  Ranges(const Ranges&) = delete;
  Ranges& operator=(const Ranges&) = delete;

  // Reads from `offset` on until the memory is full, as soon as a thread is free. Raises OSError where the file cannot
  // be opened, and what penstock.File() raises. Returns the range's number. With the GIL held.
  std::uint64_t begin(const nanobind::bytes& path, const Identity& identity, nanobind::handle memory,
                      std::int64_t offset, nanobind::handle stream);
  // Waits for the range's end. Its Report; nothing where the file is not the one that it was. Raises what the read
  // failed with. Once for each range.
  std::optional<Report> wait(std::uint64_t number);
  // Waits for the ranges that have begun, and drops the others. Not at the end of the process, nor in a forked child,
  // where the two above raise ClosedError.
  void close();

 private:
  struct Opened;
  struct Range;
  struct State;  // It is left alive at the end of the process and in a forked child.

  void check_is_own() const;
  std::shared_ptr<Opened> open(const char* path, const Identity& identity);
  static void run(State& state);
  static void read(Range& range);

  const pid_t process_ = ::getpid();
  std::unique_ptr<State> state_;
};

void bind_ranges(nanobind::module_& module);

}  // namespace penstock::python
