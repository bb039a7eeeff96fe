// SPDX-License-Identifier: Apache-2.0

// The synchronous calls of penstock.File. penstock/files.py adds the parts for which Python is fast enough.
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
  // Registers a descriptor, which the caller may close afterwards.
  File(std::shared_ptr<SessionHandle> session, int fd);
  // Creates a file, which appears under its name when it is published.
  File(std::shared_ptr<SessionHandle> session, const std::string& name, std::uint32_t mode, std::uint32_t flags);
  // Opens a striped object by its manifest, to read it.
  File(std::shared_ptr<SessionHandle> session, const std::string& manifest);
  // Creates a striped object, with a member in each folder.
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
  std::shared_ptr<FileHandle> handle_;  // Guarded by the GIL.
  std::string name_;
};

Memory::Access access_for(penstock_op op);

// The number of bytes of `memory` that a request uses. Raises ValueError if it runs past the end.
std::uint64_t size_in(const Memory& memory, std::int64_t size, std::int64_t buffer_offset);

void bind_file(nanobind::module_& module);

}  // namespace penstock::python
