// SPDX-License-Identifier: Apache-2.0

#include "device/mixed_devices.h"

#include <algorithm>

namespace penstock::core {

unsigned MixedDevices::count() const {
  unsigned count = 0;
  for (const auto& set : sets_) count += set->count();
  return count;
}

Result<Device*> MixedDevices::device(unsigned place) {
  for (const auto& set : sets_) {
    if (place < set->count()) return set->device(place);
    place -= set->count();
  }
  return failure(Code::no_device, "find the device");
}

Device* MixedDevices::current() {
  for (const auto& set : sets_) {
    if (Device* const device = set->current()) return device;
  }
  return nullptr;
}

PointerFacts MixedDevices::describe(const void* pointer) {
  for (const auto& set : sets_) {
    const PointerFacts facts = set->describe(pointer);
    if (facts.kind != MemoryKind::host) return facts;
  }
  return {};
}

Allocation MixedDevices::allocation_of(const void* pointer) {
  for (const auto& set : sets_) {
    if (const Allocation known = set->allocation_of(pointer); known != Allocation::unknown) return known;
  }
  return Allocation::unknown;
}

bool MixedDevices::has_streams() const {
  return std::any_of(sets_.begin(), sets_.end(), [](const auto& set) { return set->has_streams(); });
}

Result<StreamHome*> MixedDevices::stream_home(void* stream) {
  for (const auto& set : sets_) {
    if (set->has_streams()) return set->stream_home(stream);
  }
  return failure(Code::unsupported, "use the stream");
}

}  // namespace penstock::core
