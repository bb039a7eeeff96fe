// SPDX-License-Identifier: Apache-2.0

// The seam to the module nvidia-fs: nodes, mappings, calls and what it tells of itself. Numbers are the kernel's: 0 or
// more, or a negative errno. test/fakes/fake_nvfs.h is another module. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "path/nvfs/nvfs_abi.h"

namespace penstock::core {

class NvfsKernel {
 public:
  virtual ~NvfsKernel() = default;
  // A descriptor of node `number`.
  virtual int open_node(unsigned number) = 0;
  virtual void close_node(int fd) = 0;
  // A shadow buffer; null, and why in `error`. It takes that much memory at once, which cannot be swapped out.
  virtual std::byte* map(int fd, std::uint64_t bytes, int& error) = 0;
  virtual void unmap(std::byte* shadow, std::uint64_t bytes) = 0;
  virtual int control(int fd, unsigned long call, nvfs::Argument& argument) = 0;
  // The text of one of the files named in nvfs_abi.h, or "".
  virtual std::string text(const char* file) = 0;
};

// `root` is where /proc and /sys are looked for.
std::unique_ptr<NvfsKernel> real_nvfs_kernel(const std::string& root);

}  // namespace penstock::core
