// SPDX-License-Identifier: Apache-2.0

#include "frontend/stream_parts.h"

#include <algorithm>
#include <bit>

#include "device/stream_memory.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kBytesMax = 4u << 20;
constexpr std::uint64_t kReadBytesMin = 128u << 10;  // A shorter read ends sooner than a second thread would wake up.
// Enough for requests of up to this many times kLongBytesMax; it bounds the operations on the stream.
constexpr std::uint64_t kCountMax = 64;
constexpr std::uint64_t kLongBytesMax = 32u << 20;

// The size of parts. A read of about a mebibyte is cut so that several threads can fill its slots; a write is not,
// because only one thread can hold the file's lock.
std::uint64_t part_for(Op op, std::uint64_t size) {
  std::uint64_t part = std::min(std::bit_ceil(std::min(size, kBytesMax)), kBytesMax);
  if (op == Op::read && part > kReadBytesMin) {
    part = std::clamp(std::bit_ceil(size / StreamBlock::kSlots), kReadBytesMin, kBytesMax);
  }
  while (size / part >= kCountMax && part < kLongBytesMax) part *= 2;
  return part;
}

}  // namespace

StreamParts::StreamParts(std::uint64_t size_max, std::uint64_t bytes_max)
    : size_max_(size_max), bytes_max_(std::max<std::uint64_t>(bytes_max, 1)), slots_max_(StreamBlock::kSlots) {
  cut();
}

StreamParts StreamParts::whole(std::uint64_t size_max) { return {size_max, size_max}; }

StreamParts StreamParts::staged(Op op, std::uint64_t size_max) { return {size_max, part_for(op, size_max)}; }

void StreamParts::cut() {
  count_ = std::max<std::uint64_t>((size_max_ + bytes_max_ - 1) / bytes_max_, 1);
  slots_ = std::min(count_, slots_max_);
}

bool StreamParts::shrink() {
  if (bytes_max_ <= kBytesMin && slots_ <= 2) return false;
  if (slots_max_ > 2) slots_max_ = 2;
  else bytes_max_ /= 2;
  cut();
  return true;
}

std::uint64_t StreamParts::size_of(std::uint64_t part, std::uint64_t size) const {
  const std::uint64_t begin = begin_of(part);
  return begin < size ? std::min(size - begin, bytes_max_) : 0;
}

}  // namespace penstock::core
