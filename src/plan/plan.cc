// SPDX-License-Identifier: Apache-2.0

#include "plan/plan.h"

#include <algorithm>
#include <cstdio>

#include "base/align.h"
#include "base/invariant.h"

namespace penstock::core {

Plan::Plan(const Request& request, const Limits& limits) : request_(request), limits_(limits) {
  PENSTOCK_INVARIANT(limits.chunk_max > 0 && is_power_of_two(limits.file_align));
  PENSTOCK_INVARIANT(is_aligned(limits.chunk_max, limits.file_align));
  if (request.size == 0) return;

  middle_begin_ = request.file_offset;
  middle_end_ = request.file_offset + request.size;
  if (limits.file_align > 1) cut();
  const std::uint64_t step =
      middle_io_mode_ == IoMode::o_direct ? limits.file_align : std::min<std::uint64_t>(limits.page, limits.chunk_max);
  grid_ = align_down(middle_begin_, step);
  if (middle_end_ > middle_begin_) middle_count_ = (middle_end_ - grid_ + limits.chunk_max - 1) / limits.chunk_max;
  const std::uint64_t tail_count = middle_end_ < request.file_offset + request.size ? 1 : 0;
  chunk_count_ = head_count_ + middle_count_ + tail_count;
}

// For direct I/O, narrows the middle so that it shares no block (of a read) and no page (of a write) with other bytes.
// If no part of the request can be direct, it stays one buffered middle.
void Plan::cut() {
  if (limits_.staged && request_.op == Op::read) {
    widen_ = true;
    middle_io_mode_ = IoMode::o_direct;
    return;
  }
  PENSTOCK_INVARIANT(is_power_of_two(limits_.page));
  flush_ = request_.op == Op::write;
  const std::uint64_t begin = middle_begin_;
  const std::uint64_t end = middle_end_;
  const std::uint64_t step = request_.op == Op::write ? std::max(limits_.file_align, limits_.page) : limits_.file_align;
  const std::uint64_t first = std::min(align_up(begin, step), end);
  const std::uint64_t last = std::max(align_down(end, step), first);
  const bool reachable =
      last > first ? can_go_o_direct(first, last) : can_go_o_direct(begin, first) || can_go_o_direct(last, end);
  if (!reachable) return;
  middle_begin_ = first;
  middle_end_ = last;
  head_count_ = first > begin ? 1 : 0;
  middle_io_mode_ = IoMode::o_direct;
}

bool Plan::can_go_o_direct(std::uint64_t begin, std::uint64_t end) const {
  const std::uint64_t address = request_.buffer_address + (begin - request_.file_offset);
  return end > begin && is_aligned(begin | end, limits_.file_align) &&
         (limits_.staged || is_aligned(address, limits_.memory_align));
}

Chunk Plan::chunk(std::uint64_t index) const {
  PENSTOCK_INVARIANT(index < chunk_count_);
  if (index < head_count_) return buffered_chunk(request_.file_offset, middle_begin_);
  const std::uint64_t middle_index = index - head_count_;
  if (middle_index < middle_count_) return middle_chunk(middle_index);
  return buffered_chunk(middle_end_, request_.file_offset + request_.size);
}

Chunk Plan::in_turn(std::uint64_t turn) const {
  if (turn < middle_count_) return middle_chunk(turn);
  return chunk(turn - middle_count_ < head_count_ ? 0 : chunk_count_ - 1);
}

Chunk Plan::exact(IoMode io_mode, std::uint64_t begin, std::uint64_t end) const {
  return {.io_mode = io_mode,
          .flush = flush_ && io_mode == IoMode::buffered,
          .file_offset = begin,
          .buffer_offset = begin - request_.file_offset,
          .size = end - begin,
          .io_offset = begin,
          .io_size = end - begin};
}

Chunk Plan::buffered_chunk(std::uint64_t begin, std::uint64_t end) const {
  return exact(can_go_o_direct(begin, end) ? IoMode::o_direct : IoMode::buffered, begin, end);
}

Chunk Plan::middle_chunk(std::uint64_t index) const {
  const std::uint64_t cell = grid_ + index * limits_.chunk_max;
  Chunk chunk = exact(middle_io_mode_, std::max(cell, middle_begin_), std::min(cell + limits_.chunk_max, middle_end_));
  if (widen_) {
    chunk.io_offset = align_down(chunk.file_offset, limits_.file_align);
    chunk.io_size = align_up(chunk.file_offset + chunk.size, limits_.file_align) - chunk.io_offset;
  }
  return chunk;
}

std::size_t format_chunk(const Chunk& chunk, Op op, std::span<char> text) {
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  char io[64] = "";
  if (chunk.io_size != chunk.size) {
    std::snprintf(io, sizeof io, " io %llu+%llu", number(chunk.io_offset), number(chunk.io_size));
  }
  const int written = std::snprintf(text.data(), text.size(), "%-5s %-8s file %llu+%llu buffer +%llu%s%s", op_name(op),
                                    io_mode_name(chunk.io_mode), number(chunk.file_offset), number(chunk.size),
                                    number(chunk.buffer_offset), io, chunk.flush ? " flush" : "");
  return std::min(static_cast<std::size_t>(std::max(written, 0)), text.empty() ? 0 : text.size() - 1);
}

}  // namespace penstock::core
