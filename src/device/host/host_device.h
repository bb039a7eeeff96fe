// SPDX-License-Identifier: Apache-2.0

// Host memory that stands in for a GPU, for tests, and by default for tools on machines without one.
//
// Its copies land only when a marker behind them is waited for or asked about, never before: code that reuses a
// buffer too early, or reports bytes that have not arrived, fails its tests here as it would on a GPU.
#pragma once

#include <algorithm>
#include <iterator>

#include "device/device.h"
#include "device/host/host_streams.h"
#include "device/host/pinned_pages.h"
#include "device/pieces.h"

namespace penstock::core {

class HostDevice : public Device, public DeviceMemory, public DevicePages {
 public:
  HostDevice(int ordinal, const char* kind);

  const DeviceFacts& facts() const override { return facts_; }
  Result<std::unique_ptr<CopyQueue>> open_copy_queue(unsigned markers) override;
  Status register_host(void*, std::size_t) override { return success(); }
  bool unregister_host(void*) override { return true; }
  Status register_pages(const std::byte* memory, std::size_t size, bool writable) override {
    return home_.pages().add(memory, size, writable);
  }
  bool unregister_pages(const std::byte* memory) override;
  bool can_unregister_pages() override { return home_.memory().is_quiet(0); }
  const void* pages_context() const override { return &home_; }
  Result<void*> address_in_kernels(void* memory) override { return memory; }
  // A function in a stream stands in for a kernel.
  Status wait_for_kernels() override {
    home_.drain_all();
    return success();
  }
  void make_copies_synchronous(const void*) override {}
  Result<void*> allocate(std::size_t size) override;
  void release(void* memory) override { pieces_.remove(memory); }
  void drain_streams() override { home_.drain_all(); }

  // Finds the allocation that contains the pointer; false if the device has none.
  bool find(const void* pointer, PointerFacts& facts);

 private:
  DeviceFacts facts_;
  Pieces pieces_;
  HostStreamHome& home_ = HostStreamHome::of_process();
};

// The facts of the pointer by the one of the devices that has it.
template <typename Devices>
PointerFacts describe_among(Devices& devices, const void* pointer) {
  PointerFacts facts;
  (void)std::any_of(std::begin(devices), std::end(devices), [&](auto& each) { return each.find(pointer, facts); });
  return facts;
}

class HostDeviceSet final : public DeviceSet {
 public:
  static constexpr unsigned kCount = 2;  // Two, so that code for several devices runs everywhere.

  explicit HostDeviceSet(const DeviceTerms& terms = {});

  unsigned count() const override { return kCount; }
  Result<Device*> device(unsigned place) override;
  PointerFacts describe(const void* pointer) override { return describe_among(devices_, pointer); }
  Result<StreamHome*> stream_home(void*) override { return static_cast<StreamHome*>(&HostStreamHome::of_process()); }

 private:
  HostDevice devices_[kCount];
};

}  // namespace penstock::core
