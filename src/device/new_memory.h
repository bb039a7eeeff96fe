// SPDX-License-Identifier: Apache-2.0

// New host memory for devices: how it is mapped, and where. Bounce buffers, streams' memory and signals come from here.
#pragma once

#include <sys/mman.h>

#include <array>
#include <cstddef>

#include "base/align.h"
#include "base/page_size.h"
#include "base/status.h"

namespace penstock::core {

// Maps private, zeroed memory of `size` bytes, which are whole pages; in huge pages, if it is as large as one. With
// those registering takes half the time: 12 MiB take 2.9 to 4.5 ms instead of 6.6 to 8.7 (one H100, 2026-11-25), and a
// GPU's loads need few address translations. A forked child does not have the memory, since devices and the kernel
// write to it. Null if there is none. Give it back with munmap().
void* map_for_devices(std::size_t size);

// Maps memory and registers it with a device's driver by `register_it`, which is given the memory and returns a Status.
//
// If that is already_registered, somebody has unmapped memory there without unregistering it: the driver's copies would
// go to the pages of that, and its owner may unregister it at any time. So the memory is mapped elsewhere, while
// refused areas keep their places. Each area is four times as large as the one before it, and its beginning is
// registered: few areas lead out of a region of any size. Fails with out_of_memory if none does, else with the failure
// of `register_it`.
template <typename Register>
Result<void*> map_registered(std::size_t size, const char* step, const Register& register_it) {
  struct Area {
    std::byte* begin;
    std::size_t size;
  };
  std::array<Area, 10> areas;
  std::size_t count = 0;
  const std::size_t whole = align_up(size, page_size());
  Status status = failure(Code::already_registered, step);
  for (std::size_t room = whole; status.is(Code::already_registered); room *= 4) {
    void* const memory = count < areas.size() ? map_for_devices(room) : nullptr;
    if (memory != nullptr) areas[count++] = {static_cast<std::byte*>(memory), room};
    status = memory != nullptr ? register_it(memory) : failure(Code::out_of_memory, step);
  }
  void* const kept = status.ok() ? areas[count - 1].begin : nullptr;
  if (kept != nullptr) areas[count - 1] = {areas[count - 1].begin + whole, areas[count - 1].size - whole};
  for (std::size_t i = 0; i < count; ++i) {
    if (areas[i].size > 0) ::munmap(areas[i].begin, areas[i].size);
  }
  return status.ok() ? Result<void*>(kept) : status;
}

}  // namespace penstock::core
