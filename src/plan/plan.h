// SPDX-License-Identifier: Apache-2.0

// Splits one request into chunks. Pure: no I/O, no allocation, no globals; any chunk is computed from its index alone,
// so several workers can draw chunks from one counter.
//
// The chunks tile the request: in order, without gap or overlap. With direct I/O, a staged read is widened to whole
// blocks; everything else is cut into a head, an aligned middle that is direct, and a tail. Heads and tails of reads
// are shorter than a block. For writes they end at a page boundary, so that the middle shares no page with other
// writes; they are direct if they are whole blocks, and otherwise go through the page cache byte for byte. So the
// library never does a read-modify-write of a block; only the kernel does, with one page at each end, for less than a
// block.
#pragma once

#include <cstdint>
#include <span>

#include "core/request.h"

namespace penstock::core {

struct Chunk {
  IoMode io_mode = IoMode::buffered;
  // Flush it before it completes: a direct request had to write it through the page cache.
  bool flush = false;
  std::uint64_t file_offset = 0;    // First payload byte in the file.
  std::uint64_t buffer_offset = 0;  // First payload byte, counted from the request's buffer address.
  std::uint64_t size = 0;           // Payload bytes; never 0.
  std::uint64_t io_offset = 0;      // The range of the storage operation: the payload,
  std::uint64_t io_size = 0;        // widened to blocks if a read is staged and direct.
};

class Plan {
 public:
  Plan(const Request& request, const Limits& limits);

  std::uint64_t chunk_count() const { return chunk_count_; }
  Chunk chunk(std::uint64_t index) const;  // In the file's order; index < chunk_count()
  IoMode middle_io_mode() const { return middle_io_mode_; }
  // The same chunks in the order in which they move: turns below middle_count() are the middle, then head and tail.
  std::uint64_t middle_count() const { return middle_count_; }
  std::uint64_t head_count() const { return head_count_; }
  Chunk in_turn(std::uint64_t turn) const;  // turn < chunk_count()

 private:
  void cut();
  bool can_go_o_direct(std::uint64_t begin, std::uint64_t end) const;
  Chunk exact(IoMode io_mode, std::uint64_t begin, std::uint64_t end) const;
  Chunk buffered_chunk(std::uint64_t begin, std::uint64_t end) const;
  Chunk middle_chunk(std::uint64_t index) const;

  Request request_;
  Limits limits_;
  bool widen_ = false;
  bool flush_ = false;  // Chunks that go through the page cache are flushed.
  IoMode middle_io_mode_ = IoMode::buffered;
  std::uint64_t grid_ = 0;          // The offset where the middle's grid of chunk_max begins.
  std::uint64_t middle_begin_ = 0;  // [begin, middle_begin): the head. [middle_end, end): the tail.
  std::uint64_t middle_end_ = 0;
  std::uint64_t head_count_ = 0;
  std::uint64_t middle_count_ = 0;
  std::uint64_t chunk_count_ = 0;
};

// Writes one line for a chunk, the same in `penstock explain`, logs and tests. Returns the characters written (without
// the closing zero), cut to fit.
std::size_t format_chunk(const Chunk& chunk, Op op, std::span<char> text);

}  // namespace penstock::core
