// SPDX-License-Identifier: Apache-2.0

// EXPERIMENTAL: not yet run beside NVIDIA's module. The drive's or adapter's DMA engine moves bytes to and from
// ordinary device memory, as of cudaMalloc, by the kernel module nvidia-fs, called without NVIDIA's library. A
// self-test must prove it first, and every read reports blocks that DMA did not move. Docs: docs/reference/direct.md.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "path/nvfs/nvfs_memory.h"
#include "path/path.h"
#include "path/path_settings.h"
#include "path/pipeline/fallback_channel.h"
#include "path/pipeline/self_test_cache.h"

namespace penstock::core {

struct NvfsRules {
  bool strict = false;    // No fallback to bounce.
  bool direct_io = true;  // False: settings forbid direct I/O, and the path refuses.
  NvfsUse use = NvfsUse::on;
  std::string scratch;  // A file that self-tests may overwrite, or empty.
};

class NvfsPath final : public Path, public PathHooks, private PreferredTerms {
 public:
  static constexpr std::uint64_t kChunkMax = 16u << 20;

  NvfsPath(Storage& storage, DeviceSet& devices, std::shared_ptr<NvfsKernel> kernel, const NvfsRules& rules)
      : Path(this), storage_(storage), devices_(devices), kernel_(std::move(kernel)), rules_(rules) {}

  Verdict judge(File& file, const PointerFacts& memory, Op op) override;
  Shape shape(const RoutedRequest& request) override;
  std::uint64_t channel_bytes(const ChannelOptions& options) const override;
  Result<std::unique_ptr<Channel>> open_channel(const ChannelOptions& options) override;
  void add_buffer(const PointerFacts& memory, std::uint64_t base, std::uint64_t size) override;
  void remove_buffer(std::uint64_t base) override { buffers_.remove(base); }

  // For the path's channels, which exist only after a usable verdict.
  const std::shared_ptr<NvfsModule>& module() const { return module_; }
  NvfsBuffers& buffers() { return buffers_; }
  // Judges a read's holes: either the file has holes there, or its driver bypassed the module. In the latter case the
  // path refuses this device and file, for reads and writes.
  Reason take_in_holes(const Device* device, File& file, std::uint64_t file_offset, const NvfsAnswer& answer,
                       const NvfsGroup& group);

 private:
  Reason ineligible(const RoutedRequest& request, const Chunk& chunk) override;
  int refusal_errno(const Status& status) override;
  void refuse_late(const Device* device, File& file, Op op, int error) override;

  Proof module_proof();
  Proof memory_proof(const Device& device) const;
  Proof pair_proof(Device& device, File& file, Op op);

  Storage& storage_;
  DeviceSet& devices_;
  const std::shared_ptr<NvfsKernel> kernel_;
  const NvfsRules rules_;
  SelfTestCache pairs_;
  bool is_interface_known_ = false;  // Used by self-tests alone, of which one runs at a time.
  Mutex module_mutex_;
  std::atomic<bool> is_module_known_{false};  // True once the members below are set; they never change after.
  Proof module_proof_;
  std::shared_ptr<NvfsModule> module_;
  NvfsBuffers buffers_;
};

}  // namespace penstock::core
