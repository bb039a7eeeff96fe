// SPDX-License-Identifier: Apache-2.0

// Paged memory of an inference engine's KV cache: for each layer a tensor of [blocks, ...]. A block consists of pieces,
// one from each tensor; creating and inspecting a tensor for each piece takes longer than moving it. So the tensors are
// inspected once, and a block is a number.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <deque>
#include <memory>

#include "python/native/memory.h"

namespace penstock::python {

class Blocks {
 public:
  struct Layer {
    Memory memory;
    std::uint64_t bytes = 0;  // Bytes per block.
  };

  // Raises TypeError and ValueError. Call it and the destructor with the GIL held.
  explicit Blocks(const nanobind::list& layers);
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  std::uint64_t count() const { return count_; }
  std::uint64_t block_bytes() const { return block_bytes_; }
  const std::deque<Layer>& layers() const { return layers_; }
  // They are all in the memory of one device, or of the host.
  bool is_device() const { return layers_.front().memory.is_device(); }
  nanobind::object device() const { return device_; }

 private:
  std::uint64_t count_ = 0;
  std::uint64_t block_bytes_ = 0;
  std::deque<Layer> layers_;
  nanobind::object device_;  // The first tensor's device; None if unknown.
};

struct Block {
  std::shared_ptr<const Blocks> of;
  std::uint64_t number = 0;
};

void bind_blocks(nanobind::module_& module);

}  // namespace penstock::python
