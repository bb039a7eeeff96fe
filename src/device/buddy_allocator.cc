// SPDX-License-Identifier: Apache-2.0

#include "device/buddy_allocator.h"

#include <bit>

#include "base/invariant.h"

namespace penstock::core {
namespace {

constexpr std::uint32_t bit(unsigned order) { return std::uint32_t{1} << order; }

}  // namespace

BuddyAllocator::BuddyAllocator(unsigned order) : order_(order), free_(std::uint64_t{2} << order) {
  PENSTOCK_INVARIANT(order <= kOrderMax);
  free_[1] = bit(order);
}

std::optional<std::uint64_t> BuddyAllocator::take(unsigned order) {
  if (order > order_ || free_[1] >> order == 0) return std::nullopt;
  const unsigned found = order + static_cast<unsigned>(std::countr_zero(free_[1] >> order));
  std::uint64_t node = 1;
  unsigned at = order_;
  for (; at > found; --at) node = 2 * node + ((free_[2 * node] & bit(found)) != 0 ? 0 : 1);
  for (; at > order; --at) {
    free_[2 * node] = 0;
    free_[2 * node + 1] = bit(at - 1);
    node = 2 * node;
  }
  free_[node] = 0;
  update_above(node, order);
  return (node << order) - (std::uint64_t{1} << order_);
}

void BuddyAllocator::give_back(std::uint64_t unit, unsigned order) {
  const std::uint64_t node = (unit + (std::uint64_t{1} << order_)) >> order;
  free_[node] = bit(order);
  update_above(node, order);
}

void BuddyAllocator::update_above(std::uint64_t node, unsigned order) {
  for (; node > 1; ++order) {
    node /= 2;
    const std::uint32_t left = free_[2 * node], right = free_[2 * node + 1];
    free_[node] = left == bit(order) && right == bit(order) ? bit(order + 1) : left | right;
  }
}

}  // namespace penstock::core
