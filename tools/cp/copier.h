// SPDX-License-Identifier: Apache-2.0

// Moves the bytes of `penstock cp`: source to device memory to destination, in windows, reading one window while the
// one before is written; and compares the two files afterwards. Holes stay holes where the file system tells of them.
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

// The next piece of data at or after `from`, before `size`; nothing where only a hole is left. Where the file system
// does not tell, all is data.
std::optional<Extent> next_data(int fd, std::uint64_t from, std::uint64_t size);

struct CopyEnd {
  std::string path;
  int fd;
  const File* file;
  Tally tally;
};

class Copier {
 public:
  // window: bytes of device memory in all.
  Copier(Session& session, unsigned gpu, CopyEnd& source, CopyEnd& destination, std::uint64_t size,
         std::uint64_t window);

  std::uint64_t copy();  // Returns the bytes of data; the rest of the size was holes.
  void compare();        // Reads both again; throws a Failure that names the first difference.

 private:
  void read(CopyEnd& end, std::uint64_t half, const Extent& extent);
  void write(std::uint64_t half, const Extent& extent);
  // On a thread of its own, beside the next read; at once where none can be had (ulimit -u). Then what comes is not
  // valid.
  std::future<void> start_writing(std::uint64_t half, const Extent& extent);
  void compare_window(const Extent& extent);
  void require_done(const Status& status, const CopyEnd& end, bool is_write) const;

  Session& session_;
  unsigned gpu_;
  CopyEnd& source_;
  CopyEnd& destination_;
  std::uint64_t size_;
  std::uint64_t half_;  // Bytes of one of the two halves of the memory.
  Arena arena_;
};

}  // namespace penstock::tools
