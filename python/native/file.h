// SPDX-License-Identifier: Apache-2.0

// penstock.File's calls that return when the bytes have moved. penstock/files.py adds what Python is quick enough for.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>

#include "python/native/memory.h"
#include "python/native/report.h"
#include "python/native/session.h"

namespace penstock::python {

class File {
 public:
  // Takes a descriptor, which the caller may close afterwards.
  File(std::shared_ptr<SessionHandle> session, int fd);
  // A new one, which appears under its name when it is published.
  File(std::shared_ptr<SessionHandle> session, const std::string& name, std::uint32_t mode, std::uint32_t flags);
  // A striped object, of its manifest, for reading; and a new one, with a member in each of the folders.
  File(std::shared_ptr<SessionHandle> session, const std::string& manifest);
  File(std::shared_ptr<SessionHandle> session, const std::string& manifest, const penstock_stripe_options& options);
  virtual ~File() = default;

  void close();
  bool is_closed() const { return handle_ == nullptr; }
  // The name in errors, or "" for a file that is only a descriptor.
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  // Returns the handle, which the caller holds for the length of one call. Raises ClosedError.
  std::shared_ptr<FileHandle> use() const;

  Report transfer(penstock_op op, nanobind::handle object, std::int64_t offset, std::int64_t size,
                  std::int64_t buffer_offset, nanobind::handle stream) const;
  Report transfer_pieces(penstock_op op, nanobind::handle objects, std::int64_t offset, nanobind::handle stream) const;
  nanobind::list explain(penstock_op op, nanobind::handle object, std::int64_t offset, std::int64_t size,
                         std::uint32_t device) const;
  nanobind::dict info() const;
  nanobind::dict stripe_info() const;
  void sync() const;
  void advise_read_once() const;
  void publish() const;

 private:
  std::shared_ptr<FileHandle> handle_;  // Under the GIL.
  std::string name_;
};

Memory::Access access_for(penstock_op op);

// How much of a memory a request means. Raises ValueError where it runs past the end.
std::uint64_t size_in(const Memory& memory, std::int64_t size, std::int64_t buffer_offset);

void bind_file(nanobind::module_& module);

}  // namespace penstock::python
