// SPDX-License-Identifier: Apache-2.0

// The free parts of a range, by the buddy system: parts are powers of two of units, each aligned to its size; a part
// that is given back joins its free neighbour. Knows numbers alone, touches no memory, and asks for none once made. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace penstock::core {

class BuddyAllocator {
 public:
  static constexpr unsigned kOrderMax = 24;

  // Makes a range of 2^order units, all of them free.
  explicit BuddyAllocator(unsigned order);

  unsigned order() const { return order_; }
  // The orders that have free parts: bit 0 for one unit, and so on.
  std::uint32_t free_orders() const { return free_[1]; }
  // The first unit of a part of 2^order units, broken off the smallest that will do; nothing where there is none.
  std::optional<std::uint64_t> take(unsigned order);
  void give_back(std::uint64_t unit, unsigned order);

 private:
  void update_above(std::uint64_t node, unsigned order);

  unsigned order_;
  // A binary tree, whose root is 1: each node has the orders of the free parts below it. Nodes within a part that is
  // free, or taken, as a whole say nothing.
  std::vector<std::uint32_t> free_;
};

}  // namespace penstock::core
