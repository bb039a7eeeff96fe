// SPDX-License-Identifier: Apache-2.0

// Manages the free parts of a range by the buddy system: the size of a part is a power of two of units, and a part is
// aligned to its size; a returned part joins its free neighbour. It only knows numbers, touches no memory, and
// allocates none once made. Not thread-safe.
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
  // The orders that have free parts: bit 0 stands for parts of one unit, and so on.
  std::uint32_t free_orders() const { return free_[1]; }
  // Takes a part of 2^order units, broken off the smallest part that suffices. Returns its first unit; nothing if there
  // is no such part.
  std::optional<std::uint64_t> take(unsigned order);
  void give_back(std::uint64_t unit, unsigned order);

 private:
  void update_above(std::uint64_t node, unsigned order);

  unsigned order_;
  // A binary tree whose root is node 1: each node has the orders of the free parts below it. Nodes inside a part that
  // is free or taken as a whole have no meaning.
  std::vector<std::uint32_t> free_;
};

}  // namespace penstock::core
