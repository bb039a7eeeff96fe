// SPDX-License-Identifier: Apache-2.0

// A pool of items by index, which are taken and returned often without allocations.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::model {

constexpr std::uint32_t kNil = UINT32_MAX;

template <typename Item>
class Pool {
 public:
  std::uint32_t take() {
    ++in_use_;
    if (free_.empty()) {
      items_.emplace_back();
      return static_cast<std::uint32_t>(items_.size() - 1);
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }
  // The item's contents stay readable until the next take().
  void give_back(std::uint32_t index) {
    --in_use_;
    free_.push_back(index);
  }

  Item& operator[](std::uint32_t index) { return items_[index]; }
  const Item& operator[](std::uint32_t index) const { return items_[index]; }
  std::size_t in_use() const { return in_use_; }

 private:
  std::vector<Item> items_;
  std::vector<std::uint32_t> free_;
  std::size_t in_use_ = 0;
};

}  // namespace penstock::model
