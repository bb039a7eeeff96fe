// SPDX-License-Identifier: Apache-2.0

#include "frontend/checksums.h"

#include <algorithm>

#include "base/reachable_memory.h"
#include "checksum/crc32c.h"
#include "checksum/hash64.h"
#include "device/pinned_block.h"

namespace penstock::core {
namespace {

constexpr const char* kMakeChecksums = "make checksums";
constexpr std::size_t kBlocksMax = 16384;  // The most for one launch, which so covers 1 GiB.
constexpr std::size_t kBlocksBytes = kBlocksMax * sizeof(ChecksumBlock);
constexpr std::size_t kCopyBytes = 1u << 20;
constexpr std::size_t kKnownMax = 256;  // The largest models have some hundred layers.

using Bytes = std::span<const std::byte>;

// A launch takes less time than sleeping and waking up.
Status spin_for_copies(CopyQueue& copies, Status queued) {
  if (queued.ok()) queued = copies.record(0);
  return queued.ok() ? copies.wait(0, true) : queued;
}

}  // namespace

// The place of a piece's checksums. hash: null if none is asked for, then of no piece of a call.
struct Checksums::Sums {
  std::uint32_t* crc = nullptr;
  Hash64* hash = nullptr;

  void add(Bytes bytes) const {
    if (hash == nullptr) {
      *crc = crc32c(bytes, *crc);
    } else {
      add_to_fingerprint(bytes, *crc, *hash);
    }
  }
};

struct Checksums::Desk {
  Device* device = nullptr;
  PinnedBlock memory;  // The blocks, and behind them the bytes that are copied.
  std::unique_ptr<CopyQueue> copies;
  std::vector<Sums> sums;  // For each block, what it contributes to.
  bool is_queued = false;  // The device makes the blocks' checksums.

  std::span<ChecksumBlock> blocks() const { return {reinterpret_cast<ChecksumBlock*>(memory.data()), sums.size()}; }
  std::byte* copied() const { return memory.data() + kBlocksBytes; }
};

// The pieces of one call, one after the other. Blocks of one device are gathered, and their checksums made together: at
// once, or in the order of the program's stream, if there is one, and then nothing waits before end().
class Checksums::Work {
 public:
  explicit Work(Checksums& checksums, std::optional<void*> stream = {}) : checksums_(checksums), stream_(stream) {}

  Status add(Bytes piece, Sums sums) {
    *sums.crc = 0;
    if (piece.empty()) return success();
    if (!is_inside(piece)) look_up(piece);
    if (!facts_.needs_device()) {
      // The driver keeps page-locked memory mapped.
      const bool is_known = facts_.kind == MemoryKind::registered_host && is_inside(piece);
      if (!is_known && !is_reachable(piece.data(), piece.size(), Access::read))
        return failure(Code::bad_pointer, kMakeChecksums);
      sums.add(piece);
      return success();
    }
    if (const Status status = sit_at(facts_.device); !status.ok()) return status;
    // A kernel that reads unmapped memory destroys the program's context; a copy only fails.
    if (facts_.kind == MemoryKind::device && (is_inside(piece) || is_all_of_device(piece))) {
      return add_blocks(piece, sums);
    }
    return add_copied(piece, sums);
  }

  // Adds all pieces and sends what was gathered. hashes: one of each piece, or none.
  Status send(std::span<const iovec> pieces, std::span<std::uint32_t> sums, std::span<Hash64> hashes = {}) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Status status = add({static_cast<const std::byte*>(pieces[i].iov_base), pieces[i].iov_len},
                                {&sums[i], hashes.empty() ? nullptr : &hashes[i]});
      if (!status.ok()) return status;
    }
    return send();
  }

  // Called when all pieces have been added one by one.
  Status send() {
    if (desk_ == nullptr) return success();
    if (desk_->sums.empty()) {
      checksums_.give_back(std::move(desk_));
      return success();
    }
    Status status = desk_->copies->checksum(desk_->blocks(), stream_, desk_->sums.front().hash != nullptr);
    desk_->is_queued = status.ok();
    if (desk_->is_queued) status = desk_->copies->record(0);
    if (status.is(Code::unsupported)) status = follow_stream();
    if (status.ok() && !desk_->is_queued) status = look_at_copies(desk_->blocks());
    if (status.ok()) sent_.push_back(std::move(desk_));
    return status;
  }

  // Waits for what was sent, which completes the sums. Without this call, or after a failure, a desk is not used again.
  Status end() {
    for (std::unique_ptr<Desk>& desk : sent_) {
      // A launch takes less time than sleeping and waking up; the program's stream may have more to do before it.
      if (desk->is_queued) {
        if (const Status status = desk->copies->wait(0, !stream_); !status.ok()) return status;
      }
      add_up(*desk);
      checksums_.give_back(std::move(desk));
    }
    sent_.clear();
    return success();
  }

 private:
  // True if the piece lies in the allocation of the piece before, as most pieces do.
  bool is_inside(Bytes piece) const {
    const auto at = reinterpret_cast<std::uintptr_t>(piece.data());
    return at >= facts_.base && at - facts_.base < facts_.size && piece.size() <= facts_.size - (at - facts_.base);
  }

  // Finds the facts of the piece. Pieces of paged memory go round the same few allocations: the driver is asked once
  // about each.
  void look_up(Bytes piece) {
    for (std::size_t i = 0; i < known_.size(); ++i) {
      next_known_ = next_known_ + 1 < known_.size() ? next_known_ + 1 : 0;
      facts_ = known_[next_known_];
      if (is_inside(piece)) return;
    }
    facts_ = checksums_.devices_.describe(piece.data());
    if (facts_.size == 0 || known_.size() == kKnownMax) return;
    next_known_ = known_.size();
    known_.push_back(facts_);
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
    if (const Status status = pass_on(); !status.ok()) return status;
    return take_desk(*device);
  }

  Status take_desk(Device& device) {
    Result<std::unique_ptr<Desk>> desk = checksums_.take(device);
    if (!desk.ok()) return desk.status();
    desk_ = std::move(*desk);
    return success();
  }

  // Sends what was gathered, and waits for it if no stream of the program's has to pass first.
  Status pass_on() {
    const Status status = send();
    return status.ok() && !stream_ ? end() : status;
  }

  // For copies, which are not queued on the program's stream itself.
  Status follow_stream() { return stream_ ? desk_->copies->follow(*stream_) : success(); }

  Status add_blocks(Bytes piece, const Sums& sums) {
    while (!piece.empty()) {
      if (desk_->sums.size() == kBlocksMax) {
        Device& device = *desk_->device;
        if (Status status = pass_on(); !status.ok() || !(status = take_desk(device)).ok()) return status;
      }
      const auto bytes = std::min<std::size_t>(piece.size(), ChecksumBlock::kBytesMax);
      desk_->sums.push_back(sums);
      desk_->blocks().back() = {piece.data(), static_cast<std::uint32_t>(bytes)};
      piece = piece.subspan(bytes);
    }
    return success();
  }

  void add_up(Desk& desk) {
    const std::span<ChecksumBlock> blocks = desk.blocks();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto [crc, hash] = desk.sums[i];
      *crc = combine_(*crc, blocks[i].sum, blocks[i].bytes);
      if (hash != nullptr) hash->add(blocks[i].hash, blocks[i].bytes);
    }
    desk.sums.clear();
  }

  // Makes the blocks' checksums by the CPU.
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
        const Bytes bytes(static_cast<const std::byte*>(copies[i].host), some[i].bytes);
        some[i].sum = crc32c(bytes);
        if (desk_->sums.front().hash != nullptr) some[i].hash = Hash64::of_block(bytes);
      }
    }
    return success();
  }

  Status add_copied(Bytes piece, const Sums& sums) {
    if (const Status status = follow_stream(); !status.ok()) return status;
    while (!piece.empty()) {
      const std::size_t size = std::min(piece.size(), kCopyBytes);
      const Copy wanted{const_cast<std::byte*>(piece.data()), desk_->copied(), size, true};
      if (const Status status = desk_->copies->copy_and_wait(wanted, Direction::to_host); !status.ok()) return status;
      sums.add({desk_->copied(), size});
      piece = piece.subspan(size);
    }
    return success();
  }

  Checksums& checksums_;
  const std::optional<void*> stream_;
  std::unique_ptr<Desk> desk_;               // Gathers blocks.
  std::vector<std::unique_ptr<Desk>> sent_;  // Their sums are made, or under way.
  PointerFacts facts_;
  std::vector<PointerFacts> known_;  // Facts of allocations, in the order in which pieces first lay in them.
  std::size_t next_known_ = 0;
  Crc32cCombiner combine_;
};

// Checksums that a stream of the program's is to pass.
struct Checksums::Begun {
  Begun(Checksums& checksums, std::size_t count, void* stream, bool hashed)
      : work(checksums, stream), sums(count), hashes(hashed ? count : 0) {}
  Work work;
  std::vector<std::uint32_t> sums;
  std::vector<Hash64> hashes;
};

Checksums::Checksums(DeviceSet& devices, const Placement& placement) : devices_(devices), placement_(placement) {}
Checksums::~Checksums() = default;

Status Checksums::make(const void* memory, std::uint64_t size, std::uint64_t piece_bytes,
                       std::span<std::uint32_t> sums) {
  Work work(*this);
  Status status;
  for (std::size_t i = 0; status.ok() && i < sums.size(); ++i) {
    const std::uint64_t at = i * piece_bytes;
    status = work.add({static_cast<const std::byte*>(memory) + at, std::min(piece_bytes, size - at)}, {&sums[i]});
  }
  if (status.ok()) status = work.send();
  return status.ok() ? work.end() : status;
}

Status Checksums::make(std::span<const iovec> pieces, std::span<std::uint32_t> sums) {
  Work work(*this);
  const Status status = work.send(pieces, sums);
  return status.ok() ? work.end() : status;
}

Result<std::uint64_t> Checksums::begin(std::span<const iovec> pieces, void* stream, bool hashed) {
  auto begun = std::make_unique<Begun>(*this, pieces.size(), stream, hashed);
  if (const Status status = begun->work.send(pieces, begun->sums, begun->hashes); !status.ok()) return status;
  const MutexLock lock(mutex_);
  begun_.emplace(++last_, std::move(begun));
  return last_;
}

Status Checksums::end(std::uint64_t number, std::span<std::uint32_t> sums, std::span<std::uint64_t> hashes) {
  const std::unique_ptr<Begun> begun = take(number);
  if (begun == nullptr) return failure(Code::invalid_argument, kMakeChecksums);
  const Status status = begun->work.end();
  if (!status.ok()) return status;
  std::copy_n(begun->sums.begin(), std::min(sums.size(), begun->sums.size()), sums.begin());
  const auto told = std::span(begun->hashes).first(std::min(hashes.size(), begun->hashes.size()));
  std::transform(told.begin(), told.end(), hashes.begin(), [](const Hash64& hash) { return hash.value(); });
  return status;
}

std::unique_ptr<Checksums::Begun> Checksums::take(std::uint64_t number) {
  const MutexLock lock(mutex_);
  const auto found = begun_.find(number);
  if (found == begun_.end()) return nullptr;
  std::unique_ptr<Begun> begun = std::move(found->second);
  begun_.erase(found);
  return begun;
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
