// SPDX-License-Identifier: Apache-2.0

// Blocks of pinned memory that streams and the library share: words to wait for, descriptors of copies, and staging for
// file data, in a few slots. Pinned in slabs, which are kept as long as their home: giving pinned memory back to the
// driver waits for every stream that is held. Staging is split on demand and merged when freed. Words never become
// staging, since a stream may read one late.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "device/buddy_allocator.h"

namespace penstock::core {

class StreamHome;

// The device reads it when the stream reaches the copy. Addresses are device addresses.
struct alignas(32) StreamCopy {
  std::uint64_t to = 0;
  std::uint64_t from = 0;
  std::uint64_t size = 0;
};

// Belongs to one request at a time.
class StreamBlock {
 public:
  static constexpr unsigned kSlots = 4;

  // One word per slot. It starts at `begun` and only grows, also across requests, so that a stream that reads it late
  // sees a value that is high enough.
  std::uint32_t& word(unsigned slot) const { return header_->words[slot].value; }
  // The word that a stream writes when it no longer needs the block.
  std::uint32_t& acknowledged() const { return header_->acknowledged; }
  StreamCopy& copy(unsigned slot) const { return header_->copies[slot]; }
  // Aligned for direct I/O.
  std::byte* staging() const { return staging_; }
  std::uint64_t staging_bytes() const { return staging_bytes_; }
  // The device address of an address in the header or the staging.
  std::uint64_t device_address(const void* inside) const {
    const auto address = reinterpret_cast<std::uintptr_t>(inside);
    const bool is_staging = address - reinterpret_cast<std::uintptr_t>(staging_) < staging_bytes_;
    return address + (is_staging ? staging_shift_ : shift_);
  }

  std::uint32_t begun[kSlots] = {};  // By slot: the value at which its word ends.
  std::uint32_t to_be_acknowledged = 0;
  const void* user = nullptr;  // The latest user, for callers that search lost blocks.

 private:
  friend class StreamMemory;

  struct alignas(64) Word {
    std::uint32_t value;
  };
  struct Header {
    Word words[kSlots];
    StreamCopy copies[kSlots];
    alignas(64) std::uint32_t acknowledged;
  };

  bool is_acknowledged() const;

  Header* header_ = nullptr;  // Mapped memory starts as zeros.
  std::uint64_t shift_ = 0;
  std::byte* staging_ = nullptr;
  std::uint64_t staging_bytes_ = 0;
  std::uint64_t staging_shift_ = 0;
  std::size_t slab_ = 0;  // The slab of the staging.
};

class StreamMemory {
 public:
  explicit StreamMemory(StreamHome& home) : home_(home) {}
  ~StreamMemory();
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;

  // Takes a block with at least `staging` bytes; fails with Code::limit if the slabs would exceed `limit`, and with
  // Code::out_of_memory if memory is short. Throws nothing.
  Result<StreamBlock*> take(std::uint64_t staging, std::uint64_t limit);
  void give_back(StreamBlock& block);
  // Frees the block once its stream has written to_be_acknowledged.
  void give_back_when_acknowledged(StreamBlock& block);
  std::uint64_t bytes() const;
  // True if no more than `kept` blocks belong to requests. Blocks that wait for a stream belong to none.
  bool is_idle(std::size_t kept) const;
  // True if, in addition, no stream still has to acknowledge a block.
  bool is_quiet(std::size_t kept);

 private:
  static constexpr std::uint64_t kUnit = 4096;
  struct Pinned {
    std::byte* memory = nullptr;
    std::size_t size = 0;
    std::uint64_t shift = 0;
  };
  struct Slab {  // Of staging.
    Pinned pinned;
    BuddyAllocator units;
  };
  struct BlockSlab {  // For words and copies.
    Pinned pinned;
    std::vector<StreamBlock> blocks;
  };

  static unsigned order_of(std::uint64_t bytes);
  StreamBlock* find(std::uint64_t staging, unsigned slab_most) EXCLUDES(mutex_);
  bool stage_locked(StreamBlock& block, std::uint64_t staging, unsigned slab_most) REQUIRES(mutex_);
  void release_locked(StreamBlock& block) REQUIRES(mutex_);
  void collect_locked() REQUIRES(mutex_);
  std::size_t block_count_locked() const REQUIRES(mutex_);
  Status grow(std::uint64_t staging, std::uint64_t limit) REQUIRES(growing_) EXCLUDES(mutex_);
  Status add_blocks(std::uint64_t room, std::uint64_t limit) REQUIRES(growing_) EXCLUDES(mutex_);
  Status add_slab(unsigned order, std::uint64_t room, std::uint64_t limit) REQUIRES(growing_) EXCLUDES(mutex_);
  Status pin(Pinned& pinned) REQUIRES(growing_) EXCLUDES(mutex_);

  StreamHome& home_;
  Mutex growing_ ACQUIRED_BEFORE(mutex_);  // Held while memory is pinned.
  mutable Mutex mutex_;
  std::uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  std::vector<StreamBlock*> free_ GUARDED_BY(mutex_);
  std::vector<StreamBlock*> unacknowledged_ GUARDED_BY(mutex_);
  std::vector<BlockSlab> block_slabs_ GUARDED_BY(mutex_);
  std::vector<Slab> slabs_ GUARDED_BY(mutex_);
  std::vector<std::uint32_t> free_orders_ GUARDED_BY(mutex_);  // Each slab's free orders, for searching.
};

}  // namespace penstock::core
