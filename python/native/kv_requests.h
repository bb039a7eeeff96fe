// SPDX-License-Identifier: Apache-2.0

// The requests of one call of a store, and their memory: buffers and tensors, and blocks of paged memory. For kv.cc
// alone.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>
#include <sys/uio.h>

#include <algorithm>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "kv/request.h"
#include "python/native/blocks.h"
#include "python/native/failure.h"
#include "python/native/library.h"
#include "python/native/memory.h"
#include "python/native/no_gil.h"

namespace penstock::python {

// Holds the memory while a call moves its chunks. Use it with the GIL held.
class KvRequests {
 public:
  // memories: for each key a list of its chunk's pieces of memory. Raises TypeError and ValueError.
  KvRequests(const std::vector<kv::Name>& keys, const nanobind::list& memories, const std::vector<float>& costs,
             Memory::Access access, nanobind::handle stream)
      : access_(access), stream_(stream), requests_(keys.size()) {
    if (nanobind::len(memories) != keys.size() || (!costs.empty() && costs.size() != keys.size())) {
      raise_value_error("expected as many memories, and costs if there are any, as keys");
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      requests_[i].key = keys[i];
      requests_[i].pieces = pieces_of(nanobind::cast<nanobind::list>(memories[i]));
      if (!costs.empty()) requests_[i].cost = costs[i];
      requests_[i].is_host = is_host_;
      is_host_ = true;
    }
  }

  std::span<kv::Request> all() { return requests_; }
  // The memory of each piece of each chunk, in order.
  std::span<const Memory* const> memories() const { return memories_; }

  void wait_for_orders() const {
    const auto is_ordered = [](const Memory& memory) { return memory.order().is_given; };
    if (paged_.empty() && std::none_of(held_.begin(), held_.end(), is_ordered)) return;
    const NoGil no_gil;
    for (const Memory& memory : held_) wait_for_order(memory);
    for (const Blocks* blocks : paged_) wait_for_order(order_, blocks->layers().front().memory.data());
  }

  // Returns the outcome of each request as a byte, and the error of the first that failed, or None.
  nanobind::tuple outcomes() const {
    std::string outcomes;
    nanobind::object failure = nanobind::none();
    for (const kv::Request& request : requests_) {
      outcomes += static_cast<char>(request.outcome);
      if (request.outcome == kv::Outcome::failed && failure.is_none()) failure = exception_of(raw(request.status));
    }
    return nanobind::make_tuple(nanobind::bytes(outcomes.data(), outcomes.size()), failure);
  }

 private:
  std::span<const iovec> pieces_of(const nanobind::list& objects) {
    std::vector<iovec>& own = pieces_.emplace_back();
    for (nanobind::handle object : objects) {
      const Block* block = nullptr;
      if (nanobind::try_cast<const Block*>(object, block) && block != nullptr) add(*block, own);
      else add(held_.emplace_back(object, access_, stream_), own);
    }
    return own;
  }
  void add(const Memory& memory, std::vector<iovec>& own) {
    own.push_back({memory.data(), memory.size()});
    is_host_ = is_host_ && !memory.is_device();
    memories_.push_back(&memory);
  }
  void add(const Block& block, std::vector<iovec>& own) {
    own.reserve(own.size() + block.of->layers().size());
    for (const Blocks::Layer& layer : block.of->layers()) {
      own.push_back({layer.memory.data() + block.number * layer.bytes, layer.bytes});
      memories_.push_back(&layer.memory);
      is_host_ = is_host_ && !layer.memory.is_device();
    }
    const Blocks* const blocks = block.of.get();
    if (!blocks->is_device() || stream_.is_none()) return;
    if (std::find(paged_.begin(), paged_.end(), blocks) != paged_.end()) return;
    order_ = order_of(stream_);
    paged_.push_back(blocks);
  }

  const Memory::Access access_;
  bool is_host_ = true;  // The pieces so far of the request that is being made are.
  const nanobind::handle stream_;
  std::vector<kv::Request> requests_;
  std::deque<Memory> held_;
  std::deque<std::vector<iovec>> pieces_;
  std::vector<const Memory*> memories_;
  // The distinct Blocks on a device: a call waits once for the stream order of each.
  std::vector<const Blocks*> paged_;
  StreamOrder order_;
};

}  // namespace penstock::python
