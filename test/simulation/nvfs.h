// SPDX-License-Identifier: Apache-2.0

// The module nvidia-fs of a simulated machine with a GPU (gpu.h): its nodes, calls and texts, which the library asks
// for by the C library's calls. Its rules are those of the unit tests' stand-in (fakes/fake_nvfs.h), which ends the
// process at what would stop the kernel; transfers are those of the simulated disk. A seed may have pins and requests
// fail as the real module's were seen to, and the storage driver not call it, or not any more.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fakes/fake_nvfs.h"
#include "simulation/files.h"

namespace penstock::simulation {

class Nvfs {
 public:
  // This run's machine has it. The GPU must be there.
  void plug_in();
  bool is_there() const { return fake_ != nullptr; }
  // A file that self-tests may overwrite, by a name.
  std::string scratch() const { return "/proc/self/fd/" + std::to_string(scratch_fd_); }
  File& scratch_file() const { return *scratch_; }
  // Bytes that went between file and GPU, and not through memory of the host.
  std::uint64_t moved() const { return moved_; }
  // Why a session is not through with it though it is closed; null: it is.
  const char* left_over() const;
  // What the kernel keeps for ever of a process that ends now; null: nothing.
  const char* lost_with_process() const;
  // A forked child has none of its parent's shadow buffers, and may have other memory there.
  static void forget_parents();

  core::FakeNvfs* fake() const { return fake_.get(); }

 private:
  core::FakeNvfs::Fault draw_fault(unsigned long call);
  bool is_hooked(std::uint64_t offset);
  std::byte* reach(std::uint64_t address, std::uint64_t bytes);
  static ssize_t write(int fd, const std::byte* from, std::uint64_t bytes, std::int64_t offset, bool is_direct);

  std::unique_ptr<core::FakeNvfs> fake_;
  std::shared_ptr<File> scratch_;
  int scratch_fd_ = -1;
  unsigned fails_one_in_ = 0;
  std::uint64_t hooked_blocks_ = 0;  // So many are; then the drive's controller is reset, and the rest are not.
  bool is_hooked_in_part_ = false;
  std::uint64_t moved_ = 0;
};

Nvfs& nvfs();

}  // namespace penstock::simulation
