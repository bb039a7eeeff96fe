// SPDX-License-Identifier: Apache-2.0

// A file that a GPU's kernels read by themselves, as penstock/gpu.py holds it.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "python/native/file.h"

namespace penstock::python {

class GpuFile {
 public:
  GpuFile(const File& file, penstock_gpu_options options);
  ~GpuFile() { close(); }
  GpuFile(const GpuFile&) = delete;
  GpuFile& operator=(const GpuFile&) = delete;

  // Waits for the device's kernels. Further calls do nothing.
  void close();
  // The same open file once more: nothing of it is freed before that is closed, too.
  GpuFile* hold() const { return new GpuFile(use()); }
  bool is_closed() const { return handle_ == nullptr; }
  nanobind::bytes value() const;
  nanobind::dict info() const;

 private:
  struct Handle {
    explicit Handle(std::shared_ptr<FileHandle> opened) : file(std::move(opened)) {}
    ~Handle();
    const std::shared_ptr<FileHandle> file;
    penstock_gpu_file* raw = nullptr;
  };
  explicit GpuFile(std::shared_ptr<Handle> handle) : handle_(std::move(handle)) {}
  std::shared_ptr<Handle> use() const;

  std::shared_ptr<Handle> handle_;  // Guarded by the GIL.
};

void bind_gpu_file(nanobind::module_& module);

}  // namespace penstock::python
