// SPDX-License-Identifier: Apache-2.0

// Devices of several providers in one session. Each provider's set is asked in turn for the facts of a pointer; a
// user's stream belongs to the first provider that has streams. open_devices() (providers.h) makes this only if there
// is more than one set.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"

namespace penstock::core {

class MixedDevices final : public DeviceSet {
 public:
  // The ordinals of each set's devices begin where those of the sets before it end.
  explicit MixedDevices(std::vector<std::unique_ptr<DeviceSet>> sets) : sets_(std::move(sets)) {}

  unsigned count() const override;
  Result<Device*> device(unsigned place) override;
  Device* current() override;
  PointerFacts describe(const void* pointer) override;
  Allocation allocation_of(const void* pointer) override;
  bool has_streams() const override;
  Result<StreamHome*> stream_home(void* stream) override;

 private:
  const std::vector<std::unique_ptr<DeviceSet>> sets_;
};

}  // namespace penstock::core
