// SPDX-License-Identifier: Apache-2.0

#include "tools/common/arena.h"

#include <sys/mman.h>

#include <cstring>

#include "tools/common/failure.h"
#include "tools/common/units.h"

namespace penstock::tools {

Arena Arena::on_device(penstock_session* session, unsigned gpu, std::size_t size) {
  void* memory = nullptr;
  require(penstock_device_alloc(session, gpu, size, &memory), format_size(size) + " of device memory");
  return {static_cast<std::byte*>(memory), size, session, [=] { (void)penstock_device_free(session, gpu, memory); }};
}

Arena Arena::on_host(std::size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail_errno(format_size(size) + " of host memory", "allocate memory");
  return {static_cast<std::byte*>(memory), size, nullptr, [=] { munmap(memory, size); }};
}

void Arena::upload(std::size_t offset, std::span<const std::byte> bytes) {
  if (session_ == nullptr) {
    std::memcpy(data() + offset, bytes.data(), bytes.size());
  } else {
    require(penstock_device_upload(session_, data() + offset, bytes.data(), bytes.size()), "upload");
  }
}

void Arena::download(std::size_t offset, std::span<std::byte> bytes) const {
  if (session_ == nullptr) {
    std::memcpy(bytes.data(), data() + offset, bytes.size());
  } else {
    require(penstock_device_download(session_, bytes.data(), data() + offset, bytes.size()), "download");
  }
}

}  // namespace penstock::tools
