// SPDX-License-Identifier: Apache-2.0

// Blocks of pinned memory that streams and the library share: words to wait for, descriptors of copies, and room to
// stage file data in, in a few slots. Cut from slabs, which are kept as long as their home: giving pinned memory back
// to the driver waits for every stream that is held.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace penstock::core {

class StreamHome;

// Read by the device when the stream gets to the copy. Addresses are the device's.
struct alignas(32) StreamCopy {
  std::uint64_t to = 0;
  std::uint64_t from = 0;
  std::uint64_t size = 0;
};

// Belongs to one request at a time.
class StreamBlock {
 public:
  StreamBlock(std::byte* memory, std::uint64_t staging, std::uint64_t shift, unsigned kind)
      : memory_(memory), staging_(staging), shift_(shift), kind_(kind) {}

  static constexpr unsigned kSlots = 4;

  // One for each slot. Each starts where `begun` says, and only grows, also from request to request: so a stream that
  // looks late sees a value that is high enough.
  std::uint32_t& word(unsigned slot) const { return header().words[slot].value; }
  // What a stream writes when it needs the block no more.
  std::uint32_t& acknowledged() const { return header().acknowledged; }
  StreamCopy& copy(unsigned slot) const { return header().copies[slot]; }
  std::byte* staging() const { return memory_ + kHeaderBytes; }
  std::uint64_t staging_bytes() const { return staging_; }
  // Where the device sees memory of the block.
  std::uint64_t device_address(const void* inside) const { return reinterpret_cast<std::uintptr_t>(inside) + shift_; }

  std::uint32_t begun[kSlots] = {};  // By slot: the value that its word ends at.
  std::uint32_t to_be_acknowledged = 0;
  const void* user = nullptr;  // The latest: for whoever looks for what was lost.

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
  static constexpr std::size_t kHeaderBytes = 4096;  // So that staging is aligned for direct I/O.
  static_assert(sizeof(Header) <= kHeaderBytes);

  Header& header() const { return *reinterpret_cast<Header*>(memory_); }  // Mapped memory starts as zeros.
  bool is_acknowledged() const;

  std::byte* const memory_;
  const std::uint64_t staging_;
  const std::uint64_t shift_;
  const unsigned kind_;
};

class StreamMemory {
 public:
  explicit StreamMemory(StreamHome& home) : home_(home) {}
  ~StreamMemory();
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;

  // A block with at least `staging` bytes, where all slabs together stay within `limit`; else Code::out_of_memory.
  Result<StreamBlock*> take(std::uint64_t staging, std::uint64_t limit);
  void give_back(StreamBlock& block);
  // Once its stream has written to_be_acknowledged.
  void give_back_when_acknowledged(StreamBlock& block);
  std::uint64_t bytes() const;
  // Whether no more than `kept` blocks belong to requests. Blocks that wait for a stream belong to none.
  bool is_idle(std::size_t kept) const;
  // Whether, besides, no stream is still to tell that it needs a block no more.
  bool is_quiet(std::size_t kept);

 private:
  static constexpr std::uint64_t kStagingMin = 4096;
  static constexpr std::uint64_t kCutStagingMin = 128u << 10;
  static constexpr unsigned kKinds = 24;  // None, and powers of two from kStagingMin on.
  struct Slab {
    void* memory;
    std::size_t size;
  };

  static unsigned kind_of(std::uint64_t staging);
  static std::uint64_t staging_of(unsigned kind) { return kind == 0 ? 0 : kStagingMin << (kind - 1); }
  // Too small for two parts of a request that is cut.
  static bool is_small(unsigned kind) { return staging_of(kind) < kCutStagingMin; }
  void collect_locked() REQUIRES(mutex_);
  StreamBlock* pop(unsigned from, unsigned to) EXCLUDES(mutex_);
  Result<StreamBlock*> grow(unsigned kind, std::uint64_t limit) EXCLUDES(growing_, mutex_);
  Result<StreamBlock*> add_slab(unsigned kind, std::size_t count, std::size_t size) REQUIRES(growing_) EXCLUDES(mutex_);

  StreamHome& home_;
  Mutex growing_ ACQUIRED_BEFORE(mutex_);  // Held while memory is pinned.
  mutable Mutex mutex_;
  std::uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  std::uint64_t small_bytes_ GUARDED_BY(mutex_) = 0;  // Of these, in small blocks.
  std::array<std::vector<StreamBlock*>, kKinds> free_ GUARDED_BY(mutex_);
  std::vector<StreamBlock*> unacknowledged_ GUARDED_BY(mutex_);
  std::vector<StreamBlock*> blocks_ GUARDED_BY(mutex_);  // All there are.
  std::vector<Slab> slabs_ GUARDED_BY(mutex_);
};

}  // namespace penstock::core
