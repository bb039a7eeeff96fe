// SPDX-License-Identifier: Apache-2.0

#include "device/stream_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <utility>

#include "base/page_size.h"
#include "base/shortage.h"
#include "device/new_memory.h"
#include "device/stream_home.h"

namespace penstock::core {
namespace {

constexpr const char* kStep = "find pinned memory for the stream's request";
// The size of staging slabs depends on the limit.
constexpr std::uint64_t kSlabMin = 1u << 20, kSlabMax = 4u << 20, kSlabPart = 64;
// Memory for words and copies never becomes staging: it gets at most a part of the limit, and staging leaves it a
// minimum.
constexpr std::uint64_t kBlockSlab = 64u << 10, kBlocksPart = 8, kBlocksLeft = 32;
constexpr std::size_t kHeaderBytes = 512, kBlocksInSlab = kBlockSlab / kHeaderBytes;

}  // namespace

bool StreamBlock::is_acknowledged() const {
  const std::uint32_t seen = std::atomic_ref(header_->acknowledged).load(std::memory_order_acquire);
  return static_cast<std::int32_t>(seen - to_be_acknowledged) >= 0;
}

// The context is gone, and so are its page locks.
StreamMemory::~StreamMemory() {
  for (const Slab& slab : slabs_) ::munmap(slab.pinned.memory, slab.pinned.size);
  for (const BlockSlab& slab : block_slabs_) ::munmap(slab.pinned.memory, slab.pinned.size);
}

unsigned StreamMemory::order_of(std::uint64_t bytes) {
  return static_cast<unsigned>(std::bit_width((std::max(bytes, kUnit) - 1) / kUnit));
}

// One thread pins at a time: the next may find enough memory then. Small requests split a slab for large ones only if
// no more may be pinned.
Result<StreamBlock*> StreamMemory::take(std::uint64_t staging, std::uint64_t limit) {
  if (order_of(staging) > BuddyAllocator::kOrderMax) return failure(Code::limit, kStep);
  const unsigned fitting = order_of(std::max(staging, kSlabMax));
  if (StreamBlock* const block = find(staging, fitting)) return block;
  const MutexLock growing(growing_);
  const auto add = [&] {
    growing_.assume_held();
    return grow(staging, limit);
  };
  for (;;) {
    if (StreamBlock* const block = find(staging, fitting)) return block;
    const Status status = unless_short_of_memory(add, [] { return failure(Code::out_of_memory, kStep); });
    if (status.ok()) continue;
    StreamBlock* const block = find(staging, BuddyAllocator::kOrderMax);
    return block != nullptr ? Result<StreamBlock*>(block) : status;
  }
}

StreamBlock* StreamMemory::find(std::uint64_t staging, unsigned slab_most) {
  const MutexLock lock(mutex_);
  collect_locked();
  if (free_.empty() || !stage_locked(*free_.back(), staging, slab_most)) return nullptr;
  StreamBlock* const block = free_.back();
  free_.pop_back();
  return block;
}

// Takes it from the slab with the smallest free part that is large enough.
bool StreamMemory::stage_locked(StreamBlock& block, std::uint64_t staging, unsigned slab_most) {
  if (staging == 0) return true;
  const unsigned order = order_of(staging);
  std::size_t best = slabs_.size();
  int best_spare = BuddyAllocator::kOrderMax + 1;
  for (std::size_t i = 0; i < slabs_.size() && best_spare > 0; ++i) {
    const std::uint32_t fitting = free_orders_[i] >> order;
    const int spare = std::countr_zero(fitting);
    if (fitting == 0 || spare >= best_spare || slabs_[i].units.order() > slab_most) continue;
    best = i;
    best_spare = spare;
  }
  if (best == slabs_.size()) return false;
  Slab& slab = slabs_[best];
  block.staging_ = slab.pinned.memory + slab.units.take(order).value() * kUnit;
  block.staging_bytes_ = kUnit << order;
  block.staging_shift_ = slab.pinned.shift;
  block.slab_ = best;
  free_orders_[best] = slab.units.free_orders();
  return true;
}

void StreamMemory::release_locked(StreamBlock& block) {
  if (block.staging_bytes_ > 0) {
    Slab& slab = slabs_[block.slab_];
    slab.units.give_back(static_cast<std::uint64_t>(block.staging_ - slab.pinned.memory) / kUnit,
                         order_of(block.staging_bytes_));
    free_orders_[block.slab_] = slab.units.free_orders();
    block.staging_ = nullptr;
    block.staging_bytes_ = 0;
  }
  free_.push_back(&block);
}

void StreamMemory::collect_locked() {
  std::erase_if(unacknowledged_, [this](StreamBlock* block) REQUIRES(mutex_) {
    const bool done = block->is_acknowledged();
    if (done) release_locked(*block);
    return done;
  });
}

void StreamMemory::give_back(StreamBlock& block) {
  const MutexLock lock(mutex_);
  release_locked(block);
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
  return free_.size() + unacknowledged_.size() + kept >= block_count_locked();
}

bool StreamMemory::is_quiet(std::size_t kept) {
  const MutexLock lock(mutex_);
  collect_locked();
  return free_.size() + kept >= block_count_locked();
}

std::size_t StreamMemory::block_count_locked() const { return block_slabs_.size() * kBlocksInSlab; }

// Adds what is missing: blocks, or staging.
Status StreamMemory::grow(std::uint64_t staging, std::uint64_t limit) {
  std::uint64_t used = 0, used_by_blocks = 0;
  bool has_blocks = false;
  {
    const MutexLock lock(mutex_);
    used = bytes_;
    used_by_blocks = block_slabs_.size() * kBlockSlab;
    has_blocks = !free_.empty();
  }
  if (!has_blocks) return add_blocks(limit > used ? limit - used : 0, limit);
  if (staging == 0) return success();  // Blocks were returned meanwhile.
  used += std::max(limit / kBlocksLeft, used_by_blocks) - used_by_blocks;
  return add_slab(order_of(staging), limit > used ? limit - used : 0, limit);
}

// All host allocations come before the pinning, and the free list has room for every block, since giving a block back
// must not allocate.
Status StreamMemory::add_blocks(std::uint64_t room, std::uint64_t limit) {
  static_assert(sizeof(StreamBlock::Header) <= kHeaderBytes);
  BlockSlab slab{{.size = kBlockSlab}, std::vector<StreamBlock>(kBlocksInSlab)};
  {
    const MutexLock lock(mutex_);
    const std::size_t count = block_slabs_.size() + 1;
    const bool has_share = count == 1 || count * kBlockSlab <= limit / kBlocksPart;
    if (room < kBlockSlab || !has_share) return failure(Code::limit, kStep);
    free_.reserve(count * kBlocksInSlab);
    unacknowledged_.reserve(count * kBlocksInSlab);
    block_slabs_.reserve(count);
  }
  if (const Status status = pin(slab.pinned); !status.ok()) return status;
  const MutexLock lock(mutex_);
  std::byte* header = slab.pinned.memory;
  for (StreamBlock& block : slab.blocks) {
    block.header_ = reinterpret_cast<StreamBlock::Header*>(std::exchange(header, header + kHeaderBytes));
    block.shift_ = slab.pinned.shift;
    free_.push_back(&block);
  }
  block_slabs_.push_back(std::move(slab));
  bytes_ += kBlockSlab;
  return success();
}

Status StreamMemory::add_slab(unsigned order, std::uint64_t room, std::uint64_t limit) {
  const std::uint64_t least = std::max<std::uint64_t>(kUnit << order, page_size());
  const std::uint64_t wanted = std::max(least, std::bit_floor(std::clamp(limit / kSlabPart, kSlabMin, kSlabMax)));
  const std::uint64_t size = std::min(wanted, std::bit_floor(room));  // Both are powers of two.
  if (size < least) return failure(Code::limit, kStep);
  Slab slab{{.size = size}, BuddyAllocator(order_of(size))};
  {
    const MutexLock lock(mutex_);
    slabs_.reserve(slabs_.size() + 1);
    free_orders_.reserve(slabs_.size() + 1);
  }
  if (const Status status = pin(slab.pinned); !status.ok()) return status;
  const MutexLock lock(mutex_);
  free_orders_.push_back(slab.units.free_orders());
  slabs_.push_back(std::move(slab));
  bytes_ += size;
  return success();
}

Status StreamMemory::pin(Pinned& pinned) {
  const auto pin = [&](void* memory) { return home_.pin(memory, pinned.size, pinned.shift); };
  const Result<void*> memory = map_registered(pinned.size, kStep, pin);
  if (memory.ok()) pinned.memory = static_cast<std::byte*>(*memory);
  return memory.status();
}

}  // namespace penstock::core
