#include "plan/plan.h"

#include <algorithm>
#include <cstdio>

#include "base/align.h"
#include "base/invariant.h"

namespace penstock::core {
namespace {

// Chunks of buffered I/O end on page boundaries, so that no two of them touch the same page.
constexpr std::uint64_t kPage = 4096;

}  // namespace

Plan::Plan(const Request& request, const Limits& limits) : request_(request), limits_(limits) {
  PENSTOCK_INVARIANT(limits.chunk_max > 0 && is_power_of_two(limits.file_align));
  PENSTOCK_INVARIANT(is_aligned(limits.chunk_max, limits.file_align));
  if (request.size == 0) return;

  const std::uint64_t begin = request.file_offset;
  const std::uint64_t end = begin + request.size;
  const std::uint64_t align = limits.file_align;
  middle_begin_ = begin;
  middle_end_ = end;
  if (align > 1 && limits.staged && request.op == Op::read) {
    widen_ = true;
    middle_way_ = Way::direct;
  } else if (align > 1) {
    const std::uint64_t first = align_up(begin, align);
    const std::uint64_t address = request.buffer_address + (first - begin);
    if (limits.staged || is_aligned(address, limits.memory_align)) {
      middle_begin_ = std::min(first, end);
      middle_end_ = std::max(align_down(end, align), middle_begin_);
      middle_way_ = Way::direct;
    }
  }
  const std::uint64_t step = middle_way_ == Way::direct ? align : std::min(kPage, limits.chunk_max);
  grid_ = align_down(middle_begin_, step);
  if (middle_end_ > middle_begin_) middle_count_ = (middle_end_ - grid_ + limits.chunk_max - 1) / limits.chunk_max;
  chunk_count_ = (middle_begin_ > begin ? 1 : 0) + middle_count_ + (middle_end_ < end ? 1 : 0);
}

Chunk Plan::chunk(std::uint64_t index) const {
  PENSTOCK_INVARIANT(index < chunk_count_);
  const std::uint64_t begin = request_.file_offset;
  const bool has_head = middle_begin_ > begin;
  if (has_head && index == 0) return exact(Way::buffered, begin, middle_begin_);
  const std::uint64_t middle_index = index - (has_head ? 1 : 0);
  if (middle_index < middle_count_) return middle_chunk(middle_index);
  return exact(Way::buffered, middle_end_, begin + request_.size);
}

Chunk Plan::exact(Way way, std::uint64_t begin, std::uint64_t end) const {
  return {.way = way,
          .file_offset = begin,
          .buffer_offset = begin - request_.file_offset,
          .size = end - begin,
          .io_offset = begin,
          .io_size = end - begin};
}

Chunk Plan::middle_chunk(std::uint64_t index) const {
  const std::uint64_t cell = grid_ + index * limits_.chunk_max;
  Chunk chunk = exact(middle_way_, std::max(cell, middle_begin_), std::min(cell + limits_.chunk_max, middle_end_));
  if (widen_) {
    chunk.io_offset = align_down(chunk.file_offset, limits_.file_align);
    chunk.io_size = align_up(chunk.file_offset + chunk.size, limits_.file_align) - chunk.io_offset;
  }
  return chunk;
}

std::size_t format_chunk(const Chunk& chunk, Op op, std::span<char> text) {
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  int written =
      std::snprintf(text.data(), text.size(), "%-5s %-8s file %llu+%llu buffer +%llu", op_name(op), way_name(chunk.way),
                    number(chunk.file_offset), number(chunk.size), number(chunk.buffer_offset));
  const auto used = static_cast<std::size_t>(std::max(written, 0));
  if (chunk.io_size != chunk.size && used < text.size()) {
    written += std::snprintf(text.data() + used, text.size() - used, " io %llu+%llu", number(chunk.io_offset),
                             number(chunk.io_size));
  }
  return std::min(static_cast<std::size_t>(std::max(written, 0)), text.empty() ? 0 : text.size() - 1);
}

}  // namespace penstock::core
