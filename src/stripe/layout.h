// SPDX-License-Identifier: Apache-2.0

// How an object is spread over several files: stripe after stripe, each in the next member, like raid0 over drives. So
// any range of the object covers one contiguous range of each member. Pure arithmetic.
#pragma once

#include <algorithm>
#include <cstdint>

namespace penstock::core {

struct StripeLayout {
  static constexpr std::uint32_t kMembersMax = 32;
  static constexpr std::uint64_t kStripeUnit = 64u << 10;  // A multiple of every direct-I/O alignment.
  static constexpr std::uint64_t kStripeMax = std::uint64_t{1} << 30;
  static constexpr std::uint64_t kSizeMax = std::uint64_t{1} << 60;

  std::uint64_t size = 0;  // Bytes of the object.
  std::uint64_t stripe_bytes = 0;
  std::uint32_t members = 0;

  bool is_sane() const {
    return members >= 1 && members <= kMembersMax && size <= kSizeMax && stripe_bytes >= kStripeUnit &&
           stripe_bytes <= kStripeMax && stripe_bytes % kStripeUnit == 0;
  }

  std::uint32_t member_at(std::uint64_t offset) const {
    return static_cast<std::uint32_t>(offset / stripe_bytes % members);
  }
  std::uint64_t offset_in_member(std::uint64_t offset) const {
    return offset / (stripe_bytes * members) * stripe_bytes + offset % stripe_bytes;
  }
  // The end of the stripe, where the next member continues.
  std::uint64_t stripe_end(std::uint64_t offset) const { return (offset / stripe_bytes + 1) * stripe_bytes; }
  // The inverse of both.
  std::uint64_t offset_of(std::uint32_t member, std::uint64_t in_member) const {
    return (in_member / stripe_bytes * members + member) * stripe_bytes + in_member % stripe_bytes;
  }
  std::uint64_t member_bytes(std::uint32_t member) const {
    const std::uint64_t round = stripe_bytes * members, rest = size % round, before = stripe_bytes * member;
    return size / round * stripe_bytes + (rest <= before ? 0 : std::min(rest - before, stripe_bytes));
  }
};

}  // namespace penstock::core
