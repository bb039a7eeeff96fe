// SPDX-License-Identifier: Apache-2.0

// Devices that offer memory, made of plain files in a folder that looks like /sys/bus/pci/devices: code that maps such
// a file sees no difference. A truncated file simulates an unbound driver. All allocations of one device are the same
// memory, unless each is to have its own.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "device/p2pmem/peer_device.h"

namespace penstock::core {

class FakePeers {
 public:
  FakePeers() {
    char name[] = "/tmp/penstock-peers-XXXXXX";
    if (::mkdtemp(name) == nullptr) std::abort();
    root_ = name;
  }
  ~FakePeers() { std::filesystem::remove_all(root_); }

  void add(const std::string& address, std::size_t bytes, const char* device_class = "0x010802") const {
    const std::filesystem::path device = root_ / address;
    std::filesystem::create_directories(device / "p2pmem");
    std::ofstream(device / "class") << device_class << '\n';
    std::ofstream(device / "p2pmem/size") << bytes << '\n';
    std::ofstream(device / "p2pmem/allocate") << "";
    std::filesystem::resize_file(device / "p2pmem/allocate", bytes);
  }
  void unbind(const std::string& address) const {
    std::filesystem::resize_file(root_ / address / "p2pmem/allocate", 0);
  }
  // From now on, as of the kernel's. Such a device cannot be unbound.
  void give_each_its_own(const std::string& address) const {
    std::filesystem::remove(root_ / address / "p2pmem/allocate");
    std::filesystem::create_symlink("/dev/zero", root_ / address / "p2pmem/allocate");
  }
  Result<std::unique_ptr<DeviceSet>> open(const DeviceTerms& terms = {}) const {
    return PeerDeviceSet::open(terms, root_.string());
  }

 private:
  std::filesystem::path root_;
};

}  // namespace penstock::core
