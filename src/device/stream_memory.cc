// SPDX-License-Identifier: Apache-2.0

#include "device/stream_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>

#include "base/align.h"
#include "base/huge_pages.h"
#include "base/page_size.h"
#include "device/stream_home.h"

namespace penstock::core {
namespace {

constexpr const char* kStep = "find pinned memory for the stream's request";
constexpr std::size_t kSlabBytes = 4u << 20;      // Of small blocks together,
constexpr std::size_t kWordSlabBytes = 1u << 20;  // or of such without staging.

// Never a child's: the device writes to it, whatever a child does. In huge pages, as bounce buffers are, so that the
// loads of the GPU that read staging need few translations.
void* map(std::size_t size) {
  void* const memory = map_in_huge_pages(size);
  if (memory != MAP_FAILED) ::madvise(memory, size, MADV_DONTFORK);
  return memory;
}

}  // namespace

bool StreamBlock::is_acknowledged() const {
  const std::uint32_t seen = std::atomic_ref(header().acknowledged).load(std::memory_order_acquire);
  return static_cast<std::int32_t>(seen - to_be_acknowledged) >= 0;
}

// The context is gone, and what it had page-locked with it.
StreamMemory::~StreamMemory() {
  for (const StreamBlock* block : blocks_) delete block;
  for (const Slab& slab : slabs_) ::munmap(slab.memory, slab.size);
}

unsigned StreamMemory::kind_of(std::uint64_t staging) {
  if (staging == 0) return 0;
  return static_cast<unsigned>(std::bit_width((std::max(staging, kStagingMin) - 1) / kStagingMin)) + 1;
}

Result<StreamBlock*> StreamMemory::take(std::uint64_t staging, std::uint64_t limit) {
  const unsigned kind = kind_of(staging);
  if (kind >= kKinds) return failure(Code::out_of_memory, kStep);
  if (StreamBlock* block = pop(kind, kind)) return block;
  Result<StreamBlock*> grown = grow(kind, limit);
  if (grown.ok()) return grown;
  if (StreamBlock* const larger = pop(kind, kKinds - 1)) return larger;
  // Small blocks may have had their share: then a larger one has to do.
  return is_small(kind) ? grow(kind_of(kCutStagingMin), limit) : grown;
}

void StreamMemory::collect_locked() {
  std::erase_if(unacknowledged_, [this](StreamBlock* block) REQUIRES(mutex_) {
    const bool done = block->is_acknowledged();
    if (done) free_[block->kind_].push_back(block);
    return done;
  });
}

StreamBlock* StreamMemory::pop(unsigned from, unsigned to) {
  const MutexLock lock(mutex_);
  collect_locked();
  for (unsigned kind = from; kind <= to; ++kind) {
    if (free_[kind].empty()) continue;
    StreamBlock* const block = free_[kind].back();
    free_[kind].pop_back();
    return block;
  }
  return nullptr;
}

void StreamMemory::give_back(StreamBlock& block) {
  const MutexLock lock(mutex_);
  free_[block.kind_].push_back(&block);
}

void StreamMemory::give_back_when_acknowledged(StreamBlock& block) {
  const MutexLock lock(mutex_);
  unacknowledged_.push_back(&block);
}

std::uint64_t StreamMemory::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

bool StreamMemory::is_idle(std::size_t kept) const {
  const MutexLock lock(mutex_);
  std::size_t idle = unacknowledged_.size() + kept;
  for (const auto& blocks : free_) idle += blocks.size();
  return idle >= blocks_.size();
}

bool StreamMemory::is_quiet(std::size_t kept) {
  const MutexLock lock(mutex_);
  collect_locked();
  std::size_t free = kept;
  for (const auto& blocks : free_) free += blocks.size();
  return free >= blocks_.size();
}

// With a block for the caller.
Result<StreamBlock*> StreamMemory::grow(unsigned kind, std::uint64_t limit) {
  const MutexLock growing(growing_);
  const std::size_t block_bytes = StreamBlock::kHeaderBytes + staging_of(kind);
  std::uint64_t used = 0, used_by_small = 0;
  {
    const MutexLock lock(mutex_);
    used = bytes_;
    used_by_small = small_bytes_;
  }
  std::uint64_t room = limit > used ? limit - used : 0;
  // What small blocks take, large requests cannot have again: some is left to those.
  if (is_small(kind)) room = std::min(room, limit / 2 > used_by_small ? limit / 2 - used_by_small : 0);
  room = align_down(room, page_size());  // A slab is whole pages.
  // Where little is to be had, no kind of block may take much of it at once.
  const std::size_t slab_bytes =
      kind == 0 ? kWordSlabBytes : std::clamp<std::uint64_t>(limit / 64, kWordSlabBytes, kSlabBytes);
  const std::size_t count =
      std::min<std::size_t>(std::max<std::size_t>(slab_bytes / block_bytes, 1), room / block_bytes);
  if (count == 0) return failure(Code::out_of_memory, kStep);
  const std::size_t size = align_up(count * block_bytes, slab_bytes < kHugePage ? page_size() : kHugePage);
  return add_slab(kind, count, std::min<std::uint64_t>(size, room));
}

Result<StreamBlock*> StreamMemory::add_slab(unsigned kind, std::size_t count, std::size_t size) {
  const std::size_t block_bytes = StreamBlock::kHeaderBytes + staging_of(kind);
  void* const memory = map(size);
  if (memory == MAP_FAILED) return os_failure(errno, kStep);
  std::uint64_t shift = 0;
  if (const Status status = home_.pin(memory, size, shift); !status.ok()) {
    ::munmap(memory, size);
    return status;
  }
  const MutexLock lock(mutex_);
  // Giving back happens where no memory may be asked for.
  blocks_.reserve(blocks_.size() + count);
  unacknowledged_.reserve(blocks_.capacity());
  free_[kind].reserve(blocks_.capacity());
  bytes_ += size;
  if (is_small(kind)) small_bytes_ += size;
  slabs_.push_back({memory, size});
  for (std::size_t i = 0; i < count; ++i) {
    auto* const start = static_cast<std::byte*>(memory) + i * block_bytes;
    blocks_.push_back(new StreamBlock(start, staging_of(kind), shift, kind));
    if (i > 0) free_[kind].push_back(blocks_.back());
  }
  return blocks_[blocks_.size() - count];
}

}  // namespace penstock::core
