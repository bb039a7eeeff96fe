// SPDX-License-Identifier: Apache-2.0

// The copies of a channel between its slots of pinned memory and the device, from when a slot is ready for its copy
// until the marker behind the copy was reached. Small copies are collected until half of the slots have one, or until
// the channel asks for them, and go together with one marker. It knows nothing of storage. One thread at a time uses
// it; allocates nothing once open.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "path/pipeline/copy_batch.h"

namespace penstock::core {

class StagedCopies {
 public:
  // A read copies from the slot to the request's memory, a write the other way.
  struct SlotCopy {
    Op op = Op::read;
    RequestMemory memory;
    std::byte* host = nullptr;  // The slot's first byte to be copied.
    std::uint64_t size = 0;
  };

  class Owner {
   public:
    // The slot's copy has ended. After a failure it may still be under way, so no slot can be reused. May add copies.
    virtual void on_copied(std::uint32_t slot, const Status& status) = 0;

   protected:
    ~Owner() = default;
  };

  // The owner must outlive it.
  StagedCopies(unsigned slots, Owner& owner);
  // No other function may be called before one of these, but those that ask; they say that nothing is to be done. The
  // queue has as many markers as there are slots.
  Status open(Device& device);
  void use(std::unique_ptr<CopyQueue> queue) { device_ = std::move(queue); }

  // Queues the slot's copy, or collects it. Calls on_copied() at once if it cannot be queued.
  void add(std::uint32_t slot, const SlotCopy& copy);
  void queue_collected();
  // Calls on_copied() for each copy whose marker was reached, in the order of the markers. Returns true if there was
  // one. `wait`: waits for the first marker.
  bool reap(bool wait);
  // Makes one copy from start to end, while no other is under way.
  Status copy_and_wait(const SlotCopy& copy);

  bool has_queued() const { return queued_count_ > 0; }
  bool is_idle() const { return queued_count_ == 0 && collected_[0].empty() && collected_[1].empty(); }
  // True if storage waits for the oldest queued copy, since it is a write's.
  bool feeds_storage() const { return has_queued() && copies_[queued_[queued_head_].slot].op == Op::write; }

 private:
  struct Queued {
    std::uint32_t slot = 0;
    std::uint32_t marker = 0;  // Several in a row may share one.
  };

  void queue_collected(Op op);
  void queue(std::span<const std::uint32_t> slots, Op op);
  Status give_to_device(std::span<const std::uint32_t> slots, Op op);
  void end_all_with(std::uint32_t marker, const Status& status);

  Owner& owner_;
  std::unique_ptr<CopyQueue> device_;
  std::vector<SlotCopy> copies_;             // By slot.
  std::vector<std::uint32_t> collected_[2];  // By Op: slots whose small copies have not been queued yet.
  CopyBatch batch_;                          // The copies of one call of the device's queue.
  std::vector<Queued> queued_;               // Circular, in the order of their copies.
  std::size_t queued_head_ = 0;
  std::size_t queued_count_ = 0;
};

}  // namespace penstock::core
