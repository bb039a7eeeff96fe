// SPDX-License-Identifier: Apache-2.0

#include "device/pinned_block.h"

#include <sys/mman.h>

#include <array>
#include <vector>

#include "base/align.h"
#include "base/mutex.h"
#include "base/page_size.h"
#include "base/process.h"
#include "device/locality.h"
#include "device/new_memory.h"

namespace penstock::core {
namespace {

constexpr const char* kMapStep = "map memory for bounce buffers";

// Blocks that could not be unregistered while a stream was held. They are still page-locked, and serve the next caller
// that wants a block of the same size.
class Leftovers {
 public:
  static Leftovers& of_process() {
    static auto* const one = new Leftovers;  // Never deleted.
    return *one;
  }
  void add(const Device& device, void* memory, std::size_t size) {
    const MutexLock lock(mutex_);
    blocks_.push_back({uuid_of(device), memory, size, fork_count()});
  }
  // Null if there is none.
  void* take(const Device& device, std::size_t size) {
    const MutexLock lock(mutex_);
    for (auto each = blocks_.begin(); each != blocks_.end(); ++each) {
      if (each->uuid != uuid_of(device) || each->size != size || each->forks != fork_count()) continue;
      void* const memory = each->memory;
      blocks_.erase(each);
      return memory;
    }
    return nullptr;
  }

 private:
  // Identifies devices by UUID, because ordinals belong to one session.
  using Uuid = std::array<std::uint8_t, 16>;
  static Uuid uuid_of(const Device& device) { return std::to_array(device.facts().uuid); }

  struct Block {
    Uuid uuid;
    void* memory;
    std::size_t size;
    std::uint32_t forks;
  };
  Mutex mutex_;
  std::vector<Block> blocks_ GUARDED_BY(mutex_);
};

// Locks a block that was left behind once more, since its context may be another by now. The driver may still have it.
Status lock_again(Device& device, void* memory, std::size_t size) {
  const Status status = device.register_host(memory, size);
  if (status.ok() || status.is(Code::already_registered)) return success();
  Leftovers::of_process().add(device, memory, size);
  return status;
}

// The pages come into being on the NUMA node of the placement, if that has any room: when they are registered.
Result<void*> map_and_register(Device& device, std::size_t size, const Placement& placement) {
  return map_registered(size, kMapStep, [&](void* memory) {
    prefer_node(memory, size, node_for(placement, "", device.facts().pci_address));
    return device.register_host(memory, size);
  });
}

Result<void*> find_memory(Device* device, std::size_t size, const Placement& placement) {
  if (device == nullptr) {
    void* const memory = map_for_devices(align_up(size, page_size()));
    return memory != nullptr ? Result<void*>(memory) : failure(Code::out_of_memory, kMapStep);
  }
  void* const left = Leftovers::of_process().take(*device, size);
  if (left == nullptr) return map_and_register(*device, size, placement);
  const Status status = lock_again(*device, left, size);
  return status.ok() ? Result<void*>(left) : status;
}

}  // namespace

Result<PinnedBlock> PinnedBlock::open(Device* device, std::size_t size, const Placement& placement) {
  const Result<void*> memory = find_memory(device, size, placement);
  if (!memory.ok()) return memory.status();
  PinnedBlock block;
  block.device_ = device;
  block.data_ = static_cast<std::byte*>(*memory);
  block.size_ = size;
  return block;
}

PinnedBlock::~PinnedBlock() {
  if (data_ == nullptr) return;
  if (device_ == nullptr || device_->unregister_host(data_)) ::munmap(data_, size_);
  else Leftovers::of_process().add(*device_, data_, size_);
}

}  // namespace penstock::core
