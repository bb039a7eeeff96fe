// SPDX-License-Identifier: Apache-2.0

// The memory of the chunks in one call of a store: buffers and tensors, and blocks of paged memory. For kv.cc alone.
#pragma once

#include <nanobind/nanobind.h>
#include <sys/uio.h>

#include <algorithm>
#include <deque>
#include <span>
#include <vector>

#include "python/native/blocks.h"
#include "python/native/memory.h"

namespace penstock::python {

// The memory of chunks, while a call moves them. Call with the GIL held, unless a comment says otherwise.
class Pieces {
 public:
  Pieces(Memory::Access access, nanobind::handle stream) : access_(access), stream_(stream) {}

  // One chunk's memory: it lives as long as this.
  std::span<const iovec> of(const nanobind::list& objects) {
    std::vector<iovec>& own = pieces_.emplace_back();
    for (nanobind::handle object : objects) {
      const Block* block = nullptr;
      if (nanobind::try_cast<const Block*>(object, block) && block != nullptr) add(*block, own);
      else add(held_.emplace_back(object, access_, stream_), own);
    }
    return own;
  }
  // For each piece of each chunk, in order.
  std::span<const Memory* const> memories() const { return memories_; }
  // Without the GIL.
  void wait_for_orders() const {
    for (const Memory& memory : held_) wait_for_order(memory);
    for (const Blocks* blocks : paged_) wait_for_order(order_, blocks->layers().front().memory.data());
  }

 private:
  void add(const Memory& memory, std::vector<iovec>& own) {
    own.push_back({memory.data(), memory.size()});
    memories_.push_back(&memory);
  }
  void add(const Block& block, std::vector<iovec>& own) {
    for (const Blocks::Layer& layer : block.of->layers()) {
      own.push_back({layer.memory.data() + block.number * layer.bytes, layer.bytes});
      memories_.push_back(&layer.memory);
    }
    const Blocks* const blocks = block.of.get();
    if (!blocks->is_device() || stream_.is_none()) return;
    if (std::find(paged_.begin(), paged_.end(), blocks) != paged_.end()) return;
    order_ = order_of(stream_);
    paged_.push_back(blocks);
  }

  const Memory::Access access_;
  const nanobind::handle stream_;
  std::deque<Memory> held_;
  std::deque<std::vector<iovec>> pieces_;
  std::vector<const Memory*> memories_;
  std::vector<const Blocks*> paged_;  // Blocks on a device: one wait for each.
  StreamOrder order_;
};

}  // namespace penstock::python
