// SPDX-License-Identifier: Apache-2.0

#include "device/pinned_block.h"

#include <sys/mman.h>

#include <array>
#include <vector>

#include "base/huge_pages.h"
#include "base/mutex.h"
#include "base/process.h"
#include "device/locality.h"

namespace penstock::core {
namespace {

constexpr const char* kMapStep = "map memory for bounce buffers";
constexpr std::size_t kPlacesMost = 8;  // The places that are tried for one block.

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

void* map_plain(std::size_t size) {
  return ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// Maps memory on the NUMA node of the placement, if that has any room: the pages come into being when they are
// registered. With huge pages registering takes half the time: 12 MiB take 2.9 to 4.5 ms instead of 6.6 to 8.7 (one
// H100, 2026-11-25).
void* map(const Device* device, std::size_t size, const Placement& placement) {
  void* const memory = size < kHugePage ? map_plain(size) : map_in_huge_pages(size);
  if (memory == MAP_FAILED) return nullptr;
  if (device != nullptr) prefer_node(memory, size, node_for(placement, "", device->facts().pci_address));
  ::madvise(memory, size, MADV_DONTFORK);  // A forked child must not share memory that devices and the kernel write to.
  return memory;
}

// Locks a block that was left behind once more, since its context may be another by now. The driver may still have it.
Status lock_again(Device& device, void* memory, std::size_t size) {
  const Status status = device.register_host(memory, size);
  if (status.ok() || status.is(Code::already_registered)) return success();
  Leftovers::of_process().add(device, memory, size);
  return status;
}

// Maps and registers new memory. If the driver takes that for registered already, somebody has unmapped memory there
// without unregistering it: the driver's copies would go to the pages of that, and its owner may unregister it at any
// time. So the memory is mapped elsewhere, while what was refused keeps its place.
Result<void*> map_and_register(Device& device, std::size_t size, const Placement& placement) {
  std::array<void*, kPlacesMost> refused;
  unsigned count = 0;
  void* memory = nullptr;
  Status status = failure(Code::already_registered, kMapStep);
  while (status.is(Code::already_registered) && count < refused.size()) {
    memory = map(&device, size, placement);
    status = memory != nullptr ? device.register_host(memory, size) : failure(Code::out_of_memory, kMapStep);
    if (memory != nullptr && !status.ok()) refused[count++] = memory;
  }
  for (unsigned i = 0; i < count; ++i) ::munmap(refused[i], size);
  return status.ok() ? Result<void*>(memory) : status;
}

Result<void*> find_memory(Device* device, std::size_t size, const Placement& placement) {
  if (device == nullptr) {
    void* const memory = map(nullptr, size, placement);
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
