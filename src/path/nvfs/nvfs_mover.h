// SPDX-License-Identifier: Apache-2.0

// Moves a self-test's bytes by the module nvidia-fs, through the smallest mapping, once the module's interface has been
// tested. A read fails if DMA missed a single block, or if the module counts requests and ours are not among them.
#pragma once

#include <optional>

#include "path/nvfs/nvfs_group.h"
#include "topology/nvidia_fs_stats.h"

namespace penstock::core {

class NvfsMover final : public SelfTestMover {
 public:
  // A write without DMA silently overwrites the file with wrong bytes, so the self-test reads first.
  // `is_interface_known` is set by the first mover whose test of the interface passes. One mover is at work at a time.
  NvfsMover(std::shared_ptr<NvfsModule> module, DeviceSet& devices, bool& is_interface_known)
      : SelfTestMover({.reads_first = true, .block_min = nvfs::kBlock}), module_(std::move(module)), devices_(devices),
        is_interface_known_(is_interface_known) {}

  Proof prepare(std::byte* memory) override;
  Result<std::size_t> move(Op op, int fd, std::byte* memory, std::size_t size, std::uint64_t offset) override;
  Proof proof_of(const Status& status) override;
  Proof proof_of_copy() override;
  Proof look_back() override;
  void forget_memory() override { group_.reset(); }

 private:
  Proof map(int fd);
  std::optional<std::uint64_t> count(Op op) const;

  const std::shared_ptr<NvfsModule> module_;
  DeviceSet& devices_;
  bool& is_interface_known_;
  Device* device_ = nullptr;
  GpuRange range_;
  Proof map_proof_;
  std::unique_ptr<NvfsGroup> group_;
  bool was_counted_ = true;
};

}  // namespace penstock::core
