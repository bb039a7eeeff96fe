// SPDX-License-Identifier: Apache-2.0

// The slots of DmabufChannel: how they come and go, and what is known of the memory that each has.
#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "base/align.h"
#include "path/dmabuf/canary.h"
#include "path/dmabuf/dmabuf_channel.h"
#include "path/dmabuf/dmabuf_errors.h"
#include "path/dmabuf/dmabuf_path.h"
#include "path/dmabuf/dmabuf_reasons.h"

namespace penstock::core {
namespace {

constexpr std::chrono::seconds kTriedAgainAfter{1};
constexpr std::uint64_t kMemoryAlign = 4;  // An offset in a dma-buf is a multiple of it.
constexpr unsigned kPageLevel = 11;        // The level of a seam within a page.
constexpr std::chrono::microseconds kBetweenLooks{50};
constexpr const char* kSlotStep = "reach the device's memory from the drive";

}  // namespace

DmabufChannel::Slot* DmabufChannel::find(const DmabufDrive& drive, const Region& region) {
  const auto found =
      std::find_if(slots_.begin(), slots_.end(), [&](const Slot& one) { return one.has(drive, region); });
  return found == slots_.end() ? nullptr : &*found;
}

// Another channel may have found out that bytes are lost: nothing is tried again then.
bool DmabufChannel::may_try(const DmabufDrive& drive, std::chrono::nanoseconds now) const {
  return path_.may_try(options_.device, drive) && now >= tried_again_at_;
}

// Returns the slot of the drive and the memory. The channel's own is proven.
Result<DmabufChannel::Slot*> DmabufChannel::slot_for(const DmabufDrive& drive, const Region& region,
                                                     std::chrono::nanoseconds now) {
  Slot* slot = find(drive, region);
  if (slot != nullptr && slot->is_stale) {
    drop(slot);
    slot = nullptr;
  }
  if (slot != nullptr && !is_due(*slot, now)) return slot;
  return prepare(drive, region, slot, now);
}

// The kernel tells another's descriptor from ours for transfers, but not for new slots, nor the canary's own reads.
Result<DmabufChannel::Slot*> DmabufChannel::prepare(const DmabufDrive& drive, const Region& region, Slot* slot,
                                                    std::chrono::nanoseconds now) {
  if (!drive.node.is_ours()) return os_failure(EBADF, kSlotStep);
  if (slot == nullptr) {
    const Result<Slot*> added = add_slot(drive, region);
    if (!added.ok()) return added;
    slot = *added;
  }
  slot->proved_at = now;
  slot->bytes = 0;
  slot->parts.reset();
  slot->seam_level = 0;
  if (region.buffer != nullptr) return slot;
  if (const Status status = renew(*slot, whole_memory()); !status.ok()) return status;
  return slot;
}

Result<DmabufChannel::Slot*> DmabufChannel::add_slot(const DmabufDrive& drive, const Region& region) {
  if (slots_.size() == kSlotsMax) drop(oldest_slot());
  if (is_broken()) return left_by_break();
  const Result<int> number = export_to(drive, region);
  if (!number.ok()) return number.status();
  const MutexLock lock(slots_mutex_);
  slots_.push_back({.drive = &drive, .region = region, .number = *number});
  return &slots_.back();
}

// The slot keeps what it needs of an export, which is then closed.
Result<int> DmabufChannel::export_to(const DmabufDrive& drive, const Region& region) {
  if (region.buffer == nullptr) {
    return memory_.dmabuf().is_ours() ? ring_->dmabufs()->add(memory_.dmabuf().get(), drive.fd())
                                      : os_failure(EBADF, kSlotStep);
  }
  const Result<UniqueFd> dmabuf =
      device_.memory().export_dmabuf(reinterpret_cast<const void*>(region.slab.address), region.slab.bytes);
  return dmabuf.ok() ? ring_->dmabufs()->add(dmabuf->get(), drive.fd(), true) : dmabuf.status();
}

DmabufChannel::Slot* DmabufChannel::oldest_slot() {
  return &*std::min_element(slots_.begin(), slots_.end(),
                            [](const Slot& one, const Slot& other) { return one.used < other.used; });
}

// The clock is read for each chunk: a drive may have been left alone for long.
bool DmabufChannel::is_due(const Slot& slot, std::chrono::nanoseconds now) const {
  const DmabufRules& rules = path_.rules();
  return !slot.is_proven || slot.bytes >= rules.trusted_bytes || now - slot.proved_at >= rules.trusted_for;
}

Status DmabufChannel::renew(Slot& slot, const Window& window) {
  const DmabufDrive& drive = *slot.drive;
  proof_ = prove(drive.fd(), slot.number, window, drive.bytes(), canary_of_reads);
  if (proof_.reason != Reason::none) {
    if (means_lost_bytes(proof_)) path_.distrust(options_.device, drive, proof_);
    else tried_again_at_ = path_.clock().now() + kTriedAgainAfter;
    if (!is_broken()) drop(&slot);
    return failure(Code::path_refused, kSlotStep);
  }
  slot.is_proven = true;
  slot.seam_level = std::max(slot.seam_level, seam_level(window));
  // A long window ends with a guard, where nothing arrives.
  const std::uint64_t guard = window.bytes < kCanaryBytesMin ? 0 : kCanaryPageBytes;
  const auto begin = reinterpret_cast<std::uintptr_t>(window.memory);
  for (const std::uint64_t seen : {begin, begin + window.bytes - guard - 1}) {
    if (slot.region.buffer != nullptr) slot.parts.set(part_of(slot, seen));
  }
  return success();
}

Proof DmabufChannel::prove(int fd, int slot, const Window& window, std::uint64_t drive_bytes,
                           Proof (*canary)(const CanaryWorld&)) {
  drain();  // The canary overwrites memory that chunks in flight may have.
  if (is_broken()) return {dmabuf_reason::refused, ECANCELED};
  const auto move = [&](Op op, std::uint64_t place, std::size_t size, std::uint64_t at) {
    return operate({.op = op,
                    .fd = fd,
                    .memory = as_memory(window.offset + place),
                    .size = static_cast<std::uint32_t>(size),
                    .offset = at,
                    .tag = options_.depth,
                    .slot = slot});
  };
  const std::uint64_t last = window.offset + window.bytes - 1;
  const std::uint64_t seam = (last >> seam_level(window) << seam_level(window)) - window.offset;
  return canary({device_, *queue_, window.memory, window.bytes, seam, path_.storage(), fd, drive_bytes, move});
}

// The first operation of a slot makes the exporter's map, which may take for ever: a canary's operations have a limit,
// each its own. A ring that could not submit, or cannot wait with a limit, is looked at again.
Result<std::size_t> DmabufChannel::operate(const RingOp& op) {
  for (unsigned tries = 0;; ++tries) {
    const std::chrono::nanoseconds deadline = path_.clock().now() + DmabufPath::kFirstRequestMax;
    probed_.reset();
    ++storing_count_;
    ring_->push(op);
    while (!probed_ && !is_broken()) {
      if (reap_ring(false)) continue;
      const std::chrono::nanoseconds left = deadline - path_.clock().now();
      if (left.count() <= 0) break_down(failure(Code::no_progress, kSlotStep));
      else if (!ring_->wait_until(std::chrono::steady_clock::now() + left)) std::this_thread::sleep_for(kBetweenLooks);
    }
    if (is_broken()) return failure(Code::no_progress, kSlotStep);
    if (*probed_ >= 0) return static_cast<std::size_t>(*probed_);
    if (!is_passing(-*probed_) || tries == kTriesMax) return os_failure(-*probed_, kSlotStep);
  }
}

Proof DmabufChannel::prove_reads(const DmabufDrive& drive) {
  const Result<Slot*> slot = slot_for(drive, {}, path_.clock().now());
  if (slot.ok()) return {};
  const Status status = slot.status();
  if (status.is(Code::path_refused)) return proof_;
  if (status.is_errno(EINVAL) || status.is_errno(EOPNOTSUPP)) return {dmabuf_reason::drive, status.code};
  return {dmabuf_reason::refused, errno_or(status, EIO)};
}

Proof DmabufChannel::prove_writes(int scratch, std::uint64_t bytes) {
  const Result<int> slot = ring_->dmabufs()->add(memory_.dmabuf().get(), scratch);
  if (!slot.ok()) return {dmabuf_reason::drive, slot.status().code};
  const Proof proof = prove(scratch, *slot, whole_memory(), bytes, canary_of_writes);
  if (!is_broken()) (void)ring_->dmabufs()->remove(*slot);
  return proof;
}

// Nothing of the ring may be in flight while a slot is released. If that fails, the memory stays for ever.
void DmabufChannel::drop(Slot* slot) {
  drain();
  if (is_broken()) return;
  const int number = slot->number;
  {
    const MutexLock lock(slots_mutex_);
    slots_.erase(slots_.begin() + (slot - slots_.data()));
  }
  if (const Status status = ring_->dmabufs()->remove(number); !status.ok()) break_down(status);
}

// ---- Registered memory ---------------------------------------------------------------------------------------------

void DmabufChannel::release_slots(const DmabufBuffer& buffer) {
  const MutexLock lock(slots_mutex_);
  for (const Slot& slot : slots_) {
    if (slot.region.buffer == &buffer) (void)ring_->dmabufs()->release(slot.number);
  }
}

DmabufChannel::Slot* DmabufChannel::proven_slot(const Move& move, std::chrono::nanoseconds now) {
  Slot* const slot = find(drive_of(move), move.region);
  const bool is_ready = slot != nullptr && !slot->is_stale && !is_due(*slot, now);
  return is_ready && (!move.is_in_place() || is_proven(*slot, move)) ? slot : nullptr;
}

// Where the chunk's own memory cannot be reached, it goes by the channel's.
Result<DmabufChannel::Slot*> DmabufChannel::prove_slot(std::uint32_t index, std::chrono::nanoseconds now) {
  Move& move = moves_[index];
  const DmabufDrive& drive = drive_of(move);
  if (!move.is_in_place()) return slot_for(drive, {}, now);
  const Result<Slot*> slot = slot_for(drive, move.region, now);
  const Status status = slot.ok() ? prove_parts(**slot, move) : slot.status();
  if (status.ok()) return slot;
  if (!slot.ok()) move.region.buffer->refuse();
  std::exchange(move.region, {}).buffer->let_go();
  move.place = place_of(index);
  if (is_broken() || status.is(Code::path_refused)) return status;
  return slot_for(drive, {}, now);
}

// Only what the request is to overwrite anyway may be written: no wider blocks, and nothing behind the file's end.
void DmabufChannel::take_place(Move& move) {
  auto* const buffer = static_cast<DmabufBuffer*>(move.request->shape.channel_facts.memory_state);
  const Chunk& chunk = move.chunk;
  if (buffer == nullptr || chunk.io_size != chunk.size || chunk.size < kCanaryPageBytes) return;
  const auto address = reinterpret_cast<std::uintptr_t>(move.request->memory_of(chunk).address());
  const std::uint64_t end = std::min(file_of(move).end(), drive_of(move).bytes());
  if (address % kMemoryAlign != 0 || chunk.io_offset >= end || chunk.size > end - chunk.io_offset) return;
  if (!buffer->hold(address, chunk.size)) return;
  move.region = {buffer, buffer->life(), buffer->slab_of(address)};
  move.place = address - move.region.slab.address;
}

// For nearly all chunks, which lie in one part.
bool DmabufChannel::is_proven(const Slot& slot, const Move& move) const {
  const std::uint64_t begin = slot.region.slab.address + move.place, last = begin + move.chunk.size - 1;
  return part_of(slot, begin) == part_of(slot, last) && slot.parts.test(part_of(slot, begin)) &&
         seam_level({nullptr, move.place, move.chunk.size}) <= std::max(slot.seam_level, kPageLevel);
}

// Proves each part, and a seam that is as coarse as the chunk's. Nothing is tried with less than a page of a part: the
// chunk then goes by the channel's own memory.
Status DmabufChannel::prove_parts(Slot& slot, const Move& move) {
  constexpr std::uint64_t kPart = DmabufBuffer::kPartBytes;
  const std::uint64_t slab = slot.region.slab.address, end = slab + move.place + move.chunk.size;
  const auto window = [&](std::uint64_t begin, std::uint64_t its_end) {
    return Window{reinterpret_cast<std::byte*>(begin), begin - slab, its_end - begin};
  };
  if (const Window whole = window(slab + move.place, end); seam_level(whole) > std::max(slot.seam_level, kPageLevel)) {
    if (const Status status = renew(slot, whole); !status.ok()) return status;
  }
  for (std::uint64_t at = slab + move.place; at < end;) {
    const std::uint64_t next = std::min(end, align_down(at, kPart) + kPart);
    if (!slot.parts.test(part_of(slot, at))) {
      if (next - at < kCanaryPageBytes) return failure(Code::unsupported, kSlotStep);
      if (const Status status = renew(slot, window(at, next)); !status.ok()) return status;
    }
    at = next;
  }
  return success();
}

}  // namespace penstock::core
