// SPDX-License-Identifier: Apache-2.0

// The cut of a request on a stream into parts. The parts take turns with the slots of the request's staging memory:
// the first part has the first slot, and the part after that of the last slot has the first slot again. StreamRequest
// makes the cut before the request's final size is known, and asks it where each part lies. Values only: it takes no
// memory, and knows no stream.
#pragma once

#include <cstdint>

#include "core/io.h"

namespace penstock::core {

class StreamParts {
 public:
  // The shortest part if memory is short; a shorter request is a single part.
  static constexpr std::uint64_t kBytesMin = 64u << 10;

  // One part of no bytes.
  StreamParts() = default;
  // One part, however long the request is: it is not staged.
  static StreamParts whole(std::uint64_t size_max);
  // Parts and slots that suit a request of up to so many bytes.
  static StreamParts staged(Op op, std::uint64_t size_max);

  // Cuts the request anew, for less staging memory: into two slots first, then into shorter parts. False, with nothing
  // changed, where it has no more than two slots of the shortest length.
  bool shrink();

  std::uint64_t count() const { return count_; }
  std::uint64_t slots() const { return slots_; }
  std::uint64_t bytes_max() const { return bytes_max_; }  // The length of all parts but the last; at least 1.
  // The staging memory that a staged request needs: so many bytes for each slot, or those of its only part.
  std::uint64_t staging_bytes() const { return count_ == 1 ? size_max_ : slots_ * bytes_max_; }

  // The position of a part's first byte in the request.
  std::uint64_t begin_of(std::uint64_t part) const { return part * bytes_max_; }
  // The bytes of a part if the request has `size` bytes; 0 if it ends before the part.
  std::uint64_t size_of(std::uint64_t part, std::uint64_t size) const;
  unsigned slot_of(std::uint64_t part) const { return static_cast<unsigned>(part % slots_); }
  // The number of parts that have the part's slot before it.
  std::uint64_t turn_of(std::uint64_t part) const { return part / slots_; }
  // The number of parts that have the slot.
  std::uint64_t turns_of(unsigned slot) const { return (count_ + slots_ - 1 - slot) / slots_; }

 private:
  StreamParts(std::uint64_t size_max, std::uint64_t bytes_max);
  void cut();

  std::uint64_t size_max_ = 0;
  std::uint64_t bytes_max_ = 1;
  std::uint64_t slots_max_ = 1;
  std::uint64_t count_ = 1;
  std::uint64_t slots_ = 1;
};

}  // namespace penstock::core
