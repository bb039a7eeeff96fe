// SPDX-License-Identifier: Apache-2.0

// Memory of PCIe devices that storage's DMA engines reach without the CPU, offered by the kernel at p2pmem/allocate of
// the device in /sys: controller memory buffers of NVMe drives, devices made for tests. Never a GPU's: there the file
// maps memory that the GPU's own allocator has handed out to others.
//
// Its pieces are mapped into the process, so device address and mapped address are the same. If the device's driver is
// unbound, the mapping disappears and the next access fails with device_lost. Linux 6.2 and later with
// CONFIG_PCI_P2PDMA; opening the file takes root or a udev rule.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/pieces.h"

namespace penstock::core {

class PeerDevice final : public Device, public DeviceMemory {
 public:
  // `directory` is the device's in /sys.
  PeerDevice(int ordinal, const char* kind, std::string directory);

  const DeviceFacts& facts() const override { return facts_; }
  Result<std::unique_ptr<CopyQueue>> open_copy_queue(unsigned markers) override;
  Status register_host(void*, std::size_t) override { return success(); }
  bool unregister_host(void*) override { return true; }
  void make_copies_synchronous(const void*) override {}
  Result<void*> allocate(std::size_t size) override;
  void release(void* memory) override { pieces_.remove(memory); }
  bool allocates_mapped() const override { return true; }

  // Finds the allocation that contains the pointer; false if the device has none.
  bool find(const void* pointer, PointerFacts& facts);

 private:
  const std::string directory_;
  DeviceFacts facts_;
  Pieces pieces_;
};

class PeerDeviceSet final : public DeviceSet {
 public:
  // Fails with no_device if no device offers memory. `pci_devices` is /sys/bus/pci/devices, except in tests.
  static Result<std::unique_ptr<DeviceSet>> open(const DeviceTerms& terms = {},
                                                 const std::string& pci_devices = "/sys/bus/pci/devices");

  unsigned count() const override { return static_cast<unsigned>(devices_.size()); }
  Result<Device*> device(unsigned place) override;
  PointerFacts describe(const void* pointer) override;
  bool has_streams() const override { return false; }
  Result<StreamHome*> stream_home(void*) override { return failure(Code::unsupported, "use the stream"); }

 private:
  std::vector<std::unique_ptr<PeerDevice>> devices_;  // By PCI address.
};

}  // namespace penstock::core
