// SPDX-License-Identifier: Apache-2.0

#include "tools/common/arena.h"

#include <sys/mman.h>

#include <cstring>

#include "base/align.h"
#include "tools/common/failure.h"
#include "tools/common/units.h"

namespace penstock::tools {

Arena Arena::on_device(penstock_session* session, unsigned gpu, std::size_t size) {
  void* memory = nullptr;
  require(penstock_device_alloc(session, gpu, size, &memory), format_size(size) + " of device memory");
  return {static_cast<std::byte*>(memory), size, session, [=] { (void)penstock_device_free(session, gpu, memory); }};
}

// In huge pages where the kernel gives some: a drive takes a mebibyte of them as one piece, and of small pages as 256,
// each of which the kernel has to hold, and for which its requests may be cut in two.
Arena Arena::on_host(std::size_t size) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const std::size_t bytes = core::align_up(size, kHugePage), mapped = bytes + kHugePage;
  void* const memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail_errno(format_size(size) + " of host memory", "allocate memory");
  auto* const begin = reinterpret_cast<std::byte*>(core::align_up(reinterpret_cast<std::uintptr_t>(memory), kHugePage));
  madvise(begin, bytes, MADV_HUGEPAGE);
  return {begin, size, nullptr, [=] { munmap(memory, mapped); }};
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
