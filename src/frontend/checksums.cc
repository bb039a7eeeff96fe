// SPDX-License-Identifier: Apache-2.0

#include "frontend/checksums.h"

#include <algorithm>

#include "checksum/crc32c.h"

namespace penstock::core {
namespace {

constexpr std::size_t kSumsMax = 16384;  // Of one launch, which so makes those of 1 GiB.
constexpr std::size_t kSumsBytes = kSumsMax * sizeof(std::uint32_t);
constexpr std::size_t kCopyBytes = 1u << 20;

// A launch takes less time than to sleep and wake up.
Status finish(CopyQueue& copies, Status queued) {
  if (queued.ok()) queued = copies.record(0);
  return queued.ok() ? copies.wait(0, true) : queued;
}

}  // namespace

Status Checksums::make(const void* memory, std::uint64_t size, std::uint64_t piece_bytes,
                       std::span<std::uint32_t> sums) {
  const auto* const begin = static_cast<const std::byte*>(memory);
  const auto each_piece = [&](auto&& add) {
    Status status;
    for (std::size_t i = 0; status.ok() && i < sums.size(); ++i) {
      const std::uint64_t at = i * piece_bytes;
      status = add(std::span(begin + at, std::min(piece_bytes, size - at)), sums[i] = 0);
    }
    return status;
  };
  if (sums.empty()) return success();
  const PointerFacts facts = devices_.describe(memory);
  if (!facts.needs_device()) {
    return each_piece([](std::span<const std::byte> piece, std::uint32_t& sum) {
      sum = crc32c(piece);
      return success();
    });
  }
  if (facts.device == nullptr) return failure(Code::no_device, "make checksums of device memory");
  Result<std::unique_ptr<Desk>> desk = take(*facts.device);
  if (!desk.ok()) return desk.status();
  // A kernel that reads what is not there takes the program's context with it; a copy fails.
  const bool by_device = facts.kind == MemoryKind::device && is_all_of(*facts.device, begin, size);
  const Status status = each_piece([&](std::span<const std::byte> piece, std::uint32_t& sum) {
    return by_device ? add_by_device(**desk, piece, sum) : add_copied(**desk, piece, sum);
  });
  if (status.ok()) give_back(std::move(*desk));
  return status;
}

bool Checksums::is_all_of(Device& device, const std::byte* memory, std::uint64_t size) const {
  for (std::uint64_t at = 0; at < size;) {
    const PointerFacts facts = devices_.describe(memory + at);
    const std::uint64_t end = facts.base + facts.size, here = reinterpret_cast<std::uintptr_t>(memory) + at;
    if (facts.kind != MemoryKind::device || facts.device != &device || end <= here) return false;
    at += end - here;
  }
  return true;
}

// Blocks by the device, and what is left of them, or all where it cannot, by the CPU.
Status Checksums::add_by_device(Desk& desk, std::span<const std::byte> piece, std::uint32_t& sum) {
  auto* const words = reinterpret_cast<std::uint32_t*>(desk.memory.data());
  while (piece.size() >= kCrc32cBlock) {
    const std::span<std::uint32_t> sums(words, std::min(piece.size() / kCrc32cBlock, kSumsMax));
    const Status queued = desk.copies->checksum(piece.data(), sums);
    if (queued.is(Code::unsupported)) break;
    if (const Status done = finish(*desk.copies, queued); !done.ok()) return done;
    sum = crc32c_of_blocks(sums, sum);
    piece = piece.subspan(sums.size() * kCrc32cBlock);
  }
  return add_copied(desk, piece, sum);
}

Status Checksums::add_copied(Desk& desk, std::span<const std::byte> piece, std::uint32_t& sum) {
  std::byte* const copy = desk.memory.data() + kSumsBytes;
  while (!piece.empty()) {
    const std::size_t size = std::min(piece.size(), kCopyBytes);
    const Copy wanted{const_cast<std::byte*>(piece.data()), copy, size, true};
    if (const Status status = desk.copies->copy_and_wait(wanted, Direction::to_host); !status.ok()) return status;
    sum = crc32c({copy, size}, sum);
    piece = piece.subspan(size);
  }
  return success();
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
  Result<PinnedBlock> memory = PinnedBlock::open(&device, kSumsBytes + kCopyBytes);
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
