// SPDX-License-Identifier: Apache-2.0

// Which slots of a slab are free. The slab is cut into extents of one size, and an extent in use into slots of one
// class: classes are a 64th of a power of two apart, so that a slot is at most a 64th larger than its chunk (plus the
// rounding to a page). Pure. Its owner's lock guards it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace penstock::kv {

class Slab {
 public:
  // Both sizes are multiples of kSlotAlign. The slab's bytes after its last whole extent are unused.
  Slab(std::uint64_t bytes, std::uint64_t extent_bytes);

  // The slot size for a payload of so many bytes, with its header.
  static std::uint64_t slot_bytes_for(std::uint64_t payload_bytes);
  std::uint64_t payload_max() const;

  // A free slot of that class, or nothing.
  std::optional<std::uint64_t> take(std::uint64_t slot_bytes);
  void give_back(std::uint64_t slot_offset);
  // Takes this slot. Returns false if it is in use or no slot of this size class, since a journal may be wrong.
  bool claim(std::uint64_t slot_offset, std::uint64_t slot_bytes);

  std::uint64_t extent_of(std::uint64_t slot_offset) const { return slot_offset / extent_bytes_; }
  std::uint64_t extents() const { return extents_.size(); }
  std::uint64_t used_bytes() const { return used_bytes_; }  // Of slots.
  std::uint64_t bytes() const { return extents_.size() * extent_bytes_; }

 private:
  struct Extent {
    std::uint64_t slot_bytes = 0;  // 0: no class yet.
    std::uint64_t used = 0;        // Slots.
    std::vector<std::uint32_t> free;
  };

  void shape(std::uint64_t extent, std::uint64_t slot_bytes);
  void use(std::uint64_t extent);

  const std::uint64_t extent_bytes_;
  std::uint64_t used_bytes_ = 0;
  std::vector<Extent> extents_;
  std::vector<std::uint64_t> empty_;                            // Extents without a class.
  std::map<std::uint64_t, std::vector<std::uint64_t>> partly_;  // By slot_bytes: extents that have free slots.
};

}  // namespace penstock::kv
