// SPDX-License-Identifier: Apache-2.0

// The memory of a request's bytes: one place, or pieces one after the other. Values only.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock::core {

using MemoryPiece = iovec;  // If iov_len is 0, iov_base may be anything.

inline bool have_common_bytes(const MemoryPiece& one, const MemoryPiece& other) {
  const auto begin = reinterpret_cast<std::uintptr_t>(one.iov_base);
  const auto other_begin = reinterpret_cast<std::uintptr_t>(other.iov_base);
  if (one.iov_len == 0 || other.iov_len == 0) return false;
  // A negative distance wraps to a huge number.
  return begin - other_begin < other.iov_len || other_begin - begin < one.iov_len;
}

// The memory of one request. The pieces must outlive it.
class RequestMemory {
 public:
  RequestMemory() = default;
  RequestMemory(std::byte* address) : address_(address) {}  // Not explicit: most memory is in one place.
  // is_fresh: they are memory of the request's device, as its driver has said for this request.
  explicit RequestMemory(std::span<const MemoryPiece> pieces, bool is_fresh = false)
      : address_(pieces.empty() ? nullptr : begin_of(pieces[0])), pieces_(pieces.data()), count_(pieces.size()),
        is_fresh_(is_fresh) {
    skip(0);
  }

  bool is_in_pieces() const { return count_ > 0; }
  bool is_fresh() const { return is_fresh_; }
  std::byte* address() const { return address_; }  // The address of the first byte.

  // Skips the first `bytes` bytes.
  void skip(std::uint64_t bytes) {
    for (; count_ > 1 && bytes >= rest_of_piece(); --count_) {
      bytes -= rest_of_piece();
      address_ = begin_of(*++pieces_);
    }
    address_ += bytes;
  }
  RequestMemory after(std::uint64_t bytes) const {
    RequestMemory memory = *this;
    memory.skip(bytes);
    return memory;
  }

  // Calls take(address, size) for each place of the first `size` bytes, in their order.
  template <typename Take>
  void each_place(std::uint64_t size, Take take) const {
    RequestMemory rest = *this;
    while (size > 0) {
      const std::uint64_t here = count_ > 0 ? std::min(size, rest.rest_of_piece()) : size;
      if (here == 0) return;  // There are fewer bytes than requested.
      take(rest.address_, here);
      size -= here;
      if (size > 0) rest.skip(here);
    }
  }

 private:
  static std::byte* begin_of(const MemoryPiece& piece) { return static_cast<std::byte*>(piece.iov_base); }
  std::uint64_t rest_of_piece() const {
    return static_cast<std::uint64_t>(begin_of(*pieces_) + pieces_->iov_len - address_);
  }

  std::byte* address_ = nullptr;
  const MemoryPiece* pieces_ = nullptr;  // `address_` lies in the first one.
  std::size_t count_ = 0;                // 0: all bytes are in one place.
  bool is_fresh_ = false;
};

}  // namespace penstock::core
