#include "device/pinned_block.h"

#include <sys/mman.h>

namespace penstock::core {

Result<PinnedBlock> PinnedBlock::open(Device* device, std::size_t size) {
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return failure(Code::out_of_memory, "map memory for the ring");
  ::madvise(memory, size, MADV_HUGEPAGE);
  ::madvise(memory, size, MADV_DONTFORK);  // A forked child must not share what devices and the kernel write to.
  if (device != nullptr) {
    if (const Status status = device->register_host(memory, size); !status.ok()) {
      ::munmap(memory, size);
      return status;
    }
  }
  PinnedBlock block;
  block.device_ = device;
  block.data_ = static_cast<std::byte*>(memory);
  block.size_ = size;
  return block;
}

PinnedBlock::~PinnedBlock() {
  if (data_ == nullptr) return;
  if (device_ != nullptr) device_->unregister_host(data_);
  ::munmap(data_, size_);
}

}  // namespace penstock::core
