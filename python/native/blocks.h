// SPDX-License-Identifier: Apache-2.0

// Paged memory of an inference engine's KV cache: for each layer a tensor of [blocks, ...]. A block consists of pieces,
// one of each tensor; to make and to ask a tensor for each piece takes longer than to move it. So the tensors are asked
// once, and a block is a number.
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
    std::uint64_t bytes = 0;  // Its bytes in each block.
  };

  // Raises TypeError and ValueError. With the GIL held, as at its end.
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
  nanobind::object device_;  // The first tensor's; None if it tells none.
};

struct Block {
  std::shared_ptr<const Blocks> of;
  std::uint64_t number = 0;
};

void bind_blocks(nanobind::module_& module);

}  // namespace penstock::python
