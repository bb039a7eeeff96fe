// SPDX-License-Identifier: Apache-2.0

// The opened module nvidia-fs: nothing is known against its version, its nodes are open, and a storage driver has
// registered with it. Its interface is tested later (nvfs_interface.h), with GPU memory.
// All mappings share it; the last one closes it. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "base/process.h"
#include "path/nvfs/nvfs_kernel.h"
#include "path/path_settings.h"
#include "path/pipeline/self_test.h"
#include "topology/nvidia_fs_version.h"

namespace penstock::core {

// Returns whether we may call this version beside this kernel, or why not. Pure.
Proof judge_nvidia_fs(const NvidiaFsVersion& version, std::string_view kernel_release, NvfsUse use);

class NvfsModule {
 public:
  // Only reads files and opens no node. The proof's reason is none if the module can be used.
  static Proof look(NvfsKernel& kernel, NvfsUse use);
  // Null on failure, with the reason in why_not.
  static std::shared_ptr<NvfsModule> open(std::shared_ptr<NvfsKernel> kernel, NvfsUse use, Proof& why_not);
  ~NvfsModule();
  NvfsModule(const NvfsModule&) = delete;
  NvfsModule& operator=(const NvfsModule&) = delete;

  NvfsKernel& kernel() { return *kernel_; }
  const NvidiaFsVersion& version() const { return version_; }
  bool is_stand_in() const { return version_.is_stand_in(); }
  // Returns the nodes in turn.
  int node() { return nodes_[next_.fetch_add(1, std::memory_order_relaxed) % nodes_.size()]; }
  // True in a forked child: nothing is mapped there, and the resources are the parent's.
  bool is_inherited() const { return fork_count() != forks_; }

  // A failed MAP leaks the shadow buffer's pages in the kernel for good, so tries are limited.
  static constexpr unsigned kFailedMapsMax = 8;
  void note_failed_map(int error) {
    map_error_.store(error, std::memory_order_relaxed);
    failed_maps_.fetch_add(1, std::memory_order_relaxed);
  }
  // The errno of the last failure once there were too many; 0: MAP may be tried.
  int map_refusal() const {
    return failed_maps_.load(std::memory_order_relaxed) < kFailedMapsMax ? 0 : map_error_.load();
  }

 private:
  NvfsModule(std::shared_ptr<NvfsKernel> kernel, const NvidiaFsVersion& version)
      : kernel_(std::move(kernel)), version_(version) {}
  Proof open_nodes();
  bool has_driver();

  const std::shared_ptr<NvfsKernel> kernel_;
  const NvidiaFsVersion version_;
  const std::uint32_t forks_ = fork_count();
  std::vector<int> nodes_;
  std::atomic<unsigned> next_{0};
  std::atomic<unsigned> failed_maps_{0};
  std::atomic<int> map_error_{0};
};

}  // namespace penstock::core
