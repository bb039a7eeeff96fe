// SPDX-License-Identifier: Apache-2.0

#include "frontend/checksums.h"

#include <algorithm>

#include "base/reachable_memory.h"
#include "checksum/crc32c.h"
#include "device/pinned_block.h"

namespace penstock::core {
namespace {

constexpr const char* kMakeChecksums = "make checksums";
constexpr std::size_t kBlocksMax = 16384;  // The most for one launch, which so covers 1 GiB.
constexpr std::size_t kBlocksBytes = kBlocksMax * sizeof(ChecksumBlock);
constexpr std::size_t kCopyBytes = 1u << 20;

using Bytes = std::span<const std::byte>;

// A launch takes less time than sleeping and waking up.
Status spin_for_copies(CopyQueue& copies, Status queued) {
  if (queued.ok()) queued = copies.record(0);
  return queued.ok() ? copies.wait(0, true) : queued;
}

}  // namespace

struct Checksums::Desk {
  Device* device = nullptr;
  PinnedBlock memory;  // The blocks, and behind them the bytes that are copied.
  std::unique_ptr<CopyQueue> copies;
  std::vector<std::uint32_t*> sums;  // For each block, the sum that it contributes to.

  std::span<ChecksumBlock> blocks() const { return {reinterpret_cast<ChecksumBlock*>(memory.data()), sums.size()}; }
  std::byte* copied() const { return memory.data() + kBlocksBytes; }
};

// The pieces of one call, one after the other. Blocks of one device are gathered, and their checksums made together.
class Checksums::Work {
 public:
  explicit Work(Checksums& checksums) : checksums_(checksums) {}

  Status add(Bytes piece, std::uint32_t& sum) {
    sum = 0;
    if (piece.empty()) return success();
    if (!is_inside(piece)) facts_ = checksums_.devices_.describe(piece.data());
    if (!facts_.needs_device()) {
      // The driver keeps page-locked memory mapped.
      const bool is_known = facts_.kind == MemoryKind::registered_host && is_inside(piece);
      if (!is_known && !is_reachable(piece.data(), piece.size(), Access::read))
        return failure(Code::bad_pointer, kMakeChecksums);
      sum = crc32c(piece);
      return success();
    }
    if (const Status status = sit_at(facts_.device); !status.ok()) return status;
    // A kernel that reads unmapped memory destroys the program's context; a copy only fails.
    if (facts_.kind == MemoryKind::device && (is_inside(piece) || is_all_of_device(piece))) {
      return add_blocks(piece, sum);
    }
    return add_copied(piece, sum);
  }

  // Called when all pieces have been added. Without this call, or after a failure, the stream is not used again.
  Status end() {
    if (desk_ == nullptr) return success();
    const Status status = look();
    if (status.ok()) checksums_.give_back(std::move(desk_));
    return status;
  }

 private:
  // True if the piece lies in the allocation of the piece before, as most pieces do.
  bool is_inside(Bytes piece) const {
    const auto at = reinterpret_cast<std::uintptr_t>(piece.data());
    return at >= facts_.base && at - facts_.base < facts_.size && piece.size() <= facts_.size - (at - facts_.base);
  }

  bool is_all_of_device(Bytes piece) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(piece.data());
    for (std::uint64_t at = 0; at < piece.size();) {
      const PointerFacts facts = checksums_.devices_.describe(piece.data() + at);
      const std::uint64_t end = facts.base + facts.size, here = begin + at;
      if (facts.kind != MemoryKind::device || facts.device != facts_.device || end <= here) return false;
      at += end - here;
    }
    return true;
  }

  Status sit_at(Device* device) {
    if (device == nullptr) return failure(Code::no_device, "make checksums of device memory");
    if (desk_ != nullptr && desk_->device == device) return success();
    if (const Status status = end(); !status.ok()) return status;
    Result<std::unique_ptr<Desk>> desk = checksums_.take(*device);
    if (!desk.ok()) return desk.status();
    desk_ = std::move(*desk);
    return success();
  }

  Status add_blocks(Bytes piece, std::uint32_t& sum) {
    while (!piece.empty()) {
      if (desk_->sums.size() == kBlocksMax) {
        if (const Status status = look(); !status.ok()) return status;
      }
      const auto bytes = std::min<std::size_t>(piece.size(), ChecksumBlock::kBytesMax);
      desk_->sums.push_back(&sum);
      desk_->blocks().back() = {piece.data(), static_cast<std::uint32_t>(bytes)};
      piece = piece.subspan(bytes);
    }
    return success();
  }

  // Makes the checksums of the gathered blocks on the device, or on the CPU if the device cannot.
  Status look() {
    const std::span<ChecksumBlock> blocks = desk_->blocks();
    if (blocks.empty()) return success();
    const Status queued = desk_->copies->checksum(blocks, {}, false);
    const Status status =
        queued.is(Code::unsupported) ? look_at_copies(blocks) : spin_for_copies(*desk_->copies, queued);
    if (!status.ok()) return status;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      std::uint32_t& sum = *desk_->sums[i];
      sum = combine_(sum, blocks[i].sum, blocks[i].bytes);
    }
    desk_->sums.clear();
    return status;
  }

  Status look_at_copies(std::span<ChecksumBlock> blocks) {
    constexpr std::size_t kTogether = kCopyBytes / ChecksumBlock::kBytesMax;
    Copy copies[kTogether];
    while (!blocks.empty()) {
      const std::span<ChecksumBlock> some = blocks.first(std::min(blocks.size(), kTogether));
      blocks = blocks.subspan(some.size());
      for (std::size_t i = 0; i < some.size(); ++i) {
        std::byte* const copy = desk_->copied() + i * ChecksumBlock::kBytesMax;
        copies[i] = {const_cast<void*>(some[i].address), copy, some[i].bytes, true};
      }
      const Status queued = desk_->copies->copy_many({copies, some.size()}, Direction::to_host);
      if (const Status status = spin_for_copies(*desk_->copies, queued); !status.ok()) return status;
      for (std::size_t i = 0; i < some.size(); ++i) {
        some[i].sum = crc32c({static_cast<const std::byte*>(copies[i].host), some[i].bytes});
      }
    }
    return success();
  }

  Status add_copied(Bytes piece, std::uint32_t& sum) {
    while (!piece.empty()) {
      const std::size_t size = std::min(piece.size(), kCopyBytes);
      const Copy wanted{const_cast<std::byte*>(piece.data()), desk_->copied(), size, true};
      if (const Status status = desk_->copies->copy_and_wait(wanted, Direction::to_host); !status.ok()) return status;
      sum = crc32c({desk_->copied(), size}, sum);
      piece = piece.subspan(size);
    }
    return success();
  }

  Checksums& checksums_;
  std::unique_ptr<Desk> desk_;
  PointerFacts facts_;
  Crc32cCombiner combine_;
};

Checksums::Checksums(DeviceSet& devices, const Placement& placement) : devices_(devices), placement_(placement) {}
Checksums::~Checksums() = default;

Status Checksums::make(const void* memory, std::uint64_t size, std::uint64_t piece_bytes,
                       std::span<std::uint32_t> sums) {
  Work work(*this);
  Status status;
  for (std::size_t i = 0; status.ok() && i < sums.size(); ++i) {
    const std::uint64_t at = i * piece_bytes;
    status = work.add({static_cast<const std::byte*>(memory) + at, std::min(piece_bytes, size - at)}, sums[i]);
  }
  return status.ok() ? work.end() : status;
}

Status Checksums::make(std::span<const iovec> pieces, std::span<std::uint32_t> sums) {
  Work work(*this);
  Status status;
  for (std::size_t i = 0; status.ok() && i < pieces.size(); ++i) {
    status = work.add({static_cast<const std::byte*>(pieces[i].iov_base), pieces[i].iov_len}, sums[i]);
  }
  return status.ok() ? work.end() : status;
}

Result<std::unique_ptr<Checksums::Desk>> Checksums::take(Device& device) {
  {
    const MutexLock lock(mutex_);
    const auto found =
        std::find_if(idle_.begin(), idle_.end(), [&](const auto& desk) { return desk->device == &device; });
    if (found != idle_.end()) {
      std::unique_ptr<Desk> desk = std::move(*found);
      idle_.erase(found);
      return desk;
    }
  }
  auto desk = std::make_unique<Desk>();
  desk->device = &device;
  desk->sums.reserve(kBlocksMax);
  Result<PinnedBlock> memory = PinnedBlock::open(&device, kBlocksBytes + kCopyBytes, placement_);
  if (!memory.ok()) return memory.status();
  desk->memory = std::move(*memory);
  Result<std::unique_ptr<CopyQueue>> copies = device.open_copy_queue(1);
  if (!copies.ok()) return copies.status();
  desk->copies = std::move(*copies);
  return desk;
}

void Checksums::give_back(std::unique_ptr<Desk> desk) {
  const MutexLock lock(mutex_);
  if (idle_.size() < kIdleMax) idle_.push_back(std::move(desk));
}

}  // namespace penstock::core
