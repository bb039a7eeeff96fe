// SPDX-License-Identifier: Apache-2.0

// Moves the bytes of `penstock cp` from source to device memory to destination, in windows: it reads one window while
// it writes the one before; and compares the two files afterwards. Holes stay holes if the file system reports them.
#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <string>

#include "penstock/penstock.hpp"
#include "tools/common/arena.h"
#include "tools/common/files.h"
#include "tools/common/job.h"

namespace penstock::tools {

// The next piece of data at or after `from` and before `size`; nothing if only a hole is left. All is data if the file
// system does not report holes.
std::optional<Extent> next_data(int fd, std::uint64_t from, std::uint64_t size);

struct CopyEnd {
  std::string path;
  int fd;
  const File* file;
  Tally tally;
};

class Copier {
 public:
  // `window` is the size of all device memory used.
  Copier(Session& session, unsigned gpu, CopyEnd& source, CopyEnd& destination, std::uint64_t size,
         std::uint64_t window);

  std::uint64_t copy();  // Returns the bytes of data; the rest of the size was holes.
  void compare();        // Reads both files again; throws a Failure that names the first difference.

 private:
  void read(CopyEnd& end, std::uint64_t half, const Extent& extent);
  void write(std::uint64_t half, const Extent& extent);
  // Writes on a thread of its own, beside the next read. If no thread can be had (ulimit -u), writes at once and
  // returns a future that is not valid.
  std::future<void> start_writing(std::uint64_t half, const Extent& extent);
  void compare_window(const Extent& extent);
  void require_done(const Status& status, const CopyEnd& end, bool is_write) const;

  Session& session_;
  unsigned gpu_;
  CopyEnd& source_;
  CopyEnd& destination_;
  std::uint64_t size_;
  std::uint64_t half_;  // The size of one of the two halves of the memory.
  Arena arena_;
};

}  // namespace penstock::tools
