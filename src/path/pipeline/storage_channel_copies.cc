// SPDX-License-Identifier: Apache-2.0

// The part of a staged chunk's way that lies between its slot and the device.
#include <algorithm>

#include "path/pipeline/storage_channel.h"

namespace penstock::core {
namespace {

// Copies up to this size go together; with larger ones there is little to gain.
constexpr std::uint64_t kSmallCopyMax = 64u << 10;

}  // namespace

// The bytes that are copied between the slot and the device, in either direction.
std::byte* StorageChannel::payload_in(const Slot& slot) const {
  return slot.memory + (slot.task.chunk.file_offset - slot.task.chunk.io_offset);
}

std::uint64_t StorageChannel::copied_size(const Slot& slot) const {
  return slot.task.op == Op::read ? payload_moved(slot) : slot.task.chunk.size;
}

void StorageChannel::start_copy(std::uint32_t index) {
  Slot& slot = slots_[index];
  const Op op = slot.task.op;
  slot.phase = Phase::copying;
  if (copied_size(slot) > kSmallCopyMax) return copy_together({&index, 1}, op);
  auto& gathered = gathered_[static_cast<unsigned>(op)];
  gathered.push_back(index);
  // The device starts on these while storage continues with the other half.
  if (gathered.size() >= std::max<std::size_t>(slots_.size() / 2, 1)) copy_gathered(op);
}

void StorageChannel::copy_gathered(Op op) {
  auto& gathered = gathered_[static_cast<unsigned>(op)];
  if (gathered.empty()) return;
  copy_together(gathered, op);
  gathered.clear();
}

void StorageChannel::copy_all_gathered() {
  copy_gathered(Op::read);
  copy_gathered(Op::write);
}

// Queues the copies of several slots, followed by the marker of the last slot.
void StorageChannel::copy_together(std::span<const std::uint32_t> slots, Op op) {
  const std::uint32_t marker = slots.back();
  Status status;
  for (const std::uint32_t index : slots) {
    const Slot& slot = slots_[index];
    if (status.ok())
      status = batch_.add(*copies_, direction_of(op), slot.task.memory, payload_in(slot), copied_size(slot));
  }
  const Status queued = batch_.queue_all(*copies_, direction_of(op));
  if (status.ok()) status = queued;
  if (status.ok()) status = copies_->record(marker);
  // They may be under way with no marker behind them: no slot can be reused safely.
  if (!status.ok()) broken_ = true;
  for (const std::uint32_t index : slots) {
    if (status.ok()) copying_[(copying_head_ + copying_count_++) % copying_.size()] = {index, marker};
    else finish(index, status);
  }
}

void StorageChannel::on_copied(std::uint32_t index) {
  if (broken_) {
    finish(index, failure(Code::closed, "copy between the slot and the device"));
  } else if (slots_[index].task.op == Op::write) {
    start_storage(index);
  } else {
    finish(index, success());
  }
}

bool StorageChannel::reap_copies(bool wait) {
  bool progress = false;
  while (copying_count_ > 0) {
    const std::uint32_t marker = copying_[copying_head_].marker;
    Status status;
    if (wait && !progress) {
      status = copies_->wait(marker, false);
    } else {
      const Result<bool> reached = copies_->reached(marker);
      if (reached.ok() && !*reached) return progress;
      status = reached.status();
    }
    if (!status.ok()) broken_ = true;
    progress = true;
    while (copying_count_ > 0 && copying_[copying_head_].marker == marker) {
      const std::uint32_t index = copying_[copying_head_].slot;
      copying_head_ = (copying_head_ + 1) % copying_.size();
      --copying_count_;
      if (status.ok()) on_copied(index);
      else finish(index, status);
    }
  }
  return progress;
}

Status StorageChannel::copy_now(std::uint32_t index) {
  const Slot& slot = slots_[index];
  const Status status =
      copy_and_wait(*copies_, batch_, slot.task.op, slot.task.memory, payload_in(slot), copied_size(slot));
  if (!status.ok()) broken_ = true;  // It may still be under way.
  return status;
}

}  // namespace penstock::core
