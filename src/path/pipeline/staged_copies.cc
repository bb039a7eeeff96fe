// SPDX-License-Identifier: Apache-2.0

#include "path/pipeline/staged_copies.h"

#include <algorithm>

namespace penstock::core {
namespace {

// Copies up to this size go together; with larger ones there is little to gain.
constexpr std::uint64_t kSmallCopyMax = 64u << 10;

}  // namespace

StagedCopies::StagedCopies(unsigned slots, Owner& owner) : owner_(owner), batch_(slots) {
  copies_.resize(slots);
  queued_.resize(slots);
  for (auto& collected : collected_) collected.reserve(slots);
}

Status StagedCopies::open(Device& device) {
  Result<std::unique_ptr<CopyQueue>> queue = device.open_copy_queue(static_cast<unsigned>(copies_.size()));
  if (queue.ok()) use(std::move(*queue));
  return queue.status();
}

void StagedCopies::add(std::uint32_t slot, const SlotCopy& copy) {
  copies_[slot] = copy;
  if (copy.size > kSmallCopyMax) return queue({&slot, 1}, copy.op);
  auto& collected = collected_[static_cast<unsigned>(copy.op)];
  collected.push_back(slot);
  // The device starts on these while storage continues with the other half.
  if (collected.size() >= std::max<std::size_t>(copies_.size() / 2, 1)) queue_collected(copy.op);
}

void StagedCopies::queue_collected() {
  queue_collected(Op::read);
  queue_collected(Op::write);
}

void StagedCopies::queue_collected(Op op) {
  auto& collected = collected_[static_cast<unsigned>(op)];
  if (collected.empty()) return;
  queue(collected, op);
  collected.clear();
}

// Queues the copies of several slots, followed by the marker of the last slot.
void StagedCopies::queue(std::span<const std::uint32_t> slots, Op op) {
  const Status status = give_to_device(slots, op);
  for (const std::uint32_t slot : slots) {
    if (status.ok()) queued_[(queued_head_ + queued_count_++) % queued_.size()] = {slot, slots.back()};
    else owner_.on_copied(slot, status);
  }
}

Status StagedCopies::give_to_device(std::span<const std::uint32_t> slots, Op op) {
  Status status;
  for (const std::uint32_t slot : slots) {
    const SlotCopy& copy = copies_[slot];
    if (status.ok()) status = batch_.add(*device_, direction_of(op), copy.memory, copy.host, copy.size);
  }
  const Status queued = batch_.queue_all(*device_, direction_of(op));
  if (status.ok()) status = queued;
  if (status.ok()) status = device_->record(slots.back());
  // Requests end with the failure, and nothing may land in their memory from then on.
  return status.ok() ? status : wait_for_copies(*device_, status);
}

bool StagedCopies::reap(bool wait) {
  bool progress = false;
  while (queued_count_ > 0) {
    const std::uint32_t marker = queued_[queued_head_].marker;
    Status status;
    if (wait && !progress) {
      status = device_->wait(marker, false);
    } else {
      const Result<bool> reached = device_->reached(marker);
      if (reached.ok() && !*reached) return progress;
      status = reached.status();
    }
    progress = true;
    end_all_with(marker, status);
  }
  return progress;
}

void StagedCopies::end_all_with(std::uint32_t marker, const Status& status) {
  while (queued_count_ > 0 && queued_[queued_head_].marker == marker) {
    const std::uint32_t slot = queued_[queued_head_].slot;
    queued_head_ = (queued_head_ + 1) % queued_.size();
    --queued_count_;
    owner_.on_copied(slot, status);
  }
}

Status StagedCopies::copy_and_wait(const SlotCopy& copy) {
  return core::copy_and_wait(*device_, batch_, copy.op, copy.memory, copy.host, copy.size);
}

}  // namespace penstock::core
