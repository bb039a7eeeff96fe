// SPDX-License-Identifier: Apache-2.0

#include "path/dmabuf/dmabuf_memory.h"

#include "base/align.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kGpuPage = 2u << 20;  // The largest that a GPU has: the driver exports whole ones.

}  // namespace

Result<DmabufMemory> DmabufMemory::open(Device& device, std::uint64_t size) {
  DmabufMemory opened;
  opened.size_ = align_up(size, kGpuPage);
  const Result<void*> memory = device.memory().allocate(opened.size_);
  if (!memory.ok()) return memory.status();
  opened.device_ = &device;
  opened.data_ = static_cast<std::byte*>(*memory);
  Result<UniqueFd> dmabuf = device.memory().export_dmabuf(*memory, opened.size_);
  if (!dmabuf.ok()) return dmabuf.status();
  opened.dmabuf_ = GuardedFd(std::move(*dmabuf));
  return opened;
}

DmabufMemory::~DmabufMemory() {
  if (data_ != nullptr) device_->memory().release(data_);
}

Status CopiesWithinDevice::copy_many(std::span<const Copy> copies, Direction direction) {
  Status status;
  for (const Copy& copy : copies) {
    const bool is_read = direction == Direction::to_device;
    void* const to = is_read ? copy.device_address : copy.host;
    if (status.ok()) status = queue_->copy_on_device(to, is_read ? copy.host : copy.device_address, copy.size);
  }
  return status;
}

}  // namespace penstock::core
