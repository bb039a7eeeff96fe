// SPDX-License-Identifier: Apache-2.0

// Reads many ranges of files into one piece of memory by one call: a batch of records. Adjacent ranges of a file become
// one request.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "kv/queue_pool.h"
#include "python/native/file.h"

namespace penstock::python {

class RecordReader {
 public:
  // Keeps the files open. Call it with the GIL held.
  RecordReader(std::shared_ptr<SessionHandle> session, nanobind::list files);
  ~RecordReader();
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  // Reads ranges of files into the memory. The first four arguments are arrays of int64, as bytes, with an element for
  // each range: the number of its file, its offset there, its length, and its place in the memory. Ranges at most `gap`
  // bytes apart are one read; the bytes between them go to the last `gap` bytes of the memory, which are reserved for
  // that. Returns the bytes by path, and by the reason for which a better one was refused. Raises the first failure,
  // and ValueError if a range is not within its file or the memory. Any thread.
  nanobind::tuple read(const nanobind::bytes& numbers, const nanobind::bytes& offsets, const nanobind::bytes& lengths,
                       const nanobind::bytes& places, nanobind::handle memory, std::uint64_t gap,
                       nanobind::handle stream);

 private:
  const pid_t process_ = ::getpid();
  std::shared_ptr<SessionHandle> session_;
  std::vector<std::shared_ptr<FileHandle>> files_;
  std::unique_ptr<kv::QueuePool> queues_;
};

void bind_records(nanobind::module_& module);

}  // namespace penstock::python
