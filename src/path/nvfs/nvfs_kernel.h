// SPDX-License-Identifier: Apache-2.0

// The seam to the module nvidia-fs: nodes, mappings, ioctls and its files in /proc and /sys. Results are as of the
// kernel: 0 or more, or a negative errno. test/fakes/fake_nvfs.h is the stand-in. Thread-safe.
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
  // Maps a shadow buffer; null on failure, with the errno in `error`. The kernel allocates all of its memory at once,
  // unswappable.
  virtual std::byte* map(int fd, std::uint64_t bytes, int& error) = 0;
  virtual void unmap(std::byte* shadow, std::uint64_t bytes) = 0;
  virtual int control(int fd, unsigned long call, nvfs::Argument& argument) = 0;
  // The text of one of the files named in nvfs_abi.h, or "".
  virtual std::string text(const char* file) = 0;
};

// `root` is the directory that contains /proc and /sys.
std::unique_ptr<NvfsKernel> real_nvfs_kernel(const std::string& root);

}  // namespace penstock::core
