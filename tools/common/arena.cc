// SPDX-License-Identifier: Apache-2.0

#include "tools/common/arena.h"

#include <sys/mman.h>

#include <cstring>

#include "base/align.h"
#include "base/huge_pages.h"
#include "tools/common/failure.h"
#include "tools/common/units.h"

namespace penstock::tools {

Arena Arena::on_device(penstock_session* session, unsigned gpu, std::size_t size) {
  void* memory = nullptr;
  require(penstock_device_alloc(session, gpu, size, &memory), format_size(size) + " of device memory");
  return {static_cast<std::byte*>(memory), size, session, [=] { (void)penstock_device_free(session, gpu, memory); }};
}

// Maps memory in huge pages if the kernel gives some. A drive takes one mebibyte of a huge page as a single piece; in
// small pages it is 256 pieces, each of which the kernel has to hold, and a request may be cut in two for them.
Arena Arena::on_host(std::size_t size) {
  const std::size_t mapped = core::align_up(size, core::kHugePage);
  void* const memory = core::map_in_huge_pages(mapped);
  if (memory == MAP_FAILED) fail_errno(format_size(size) + " of host memory", "allocate memory");
  return {static_cast<std::byte*>(memory), size, nullptr, [=] { munmap(memory, mapped); }};
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
