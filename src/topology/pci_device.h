// SPDX-License-Identifier: Apache-2.0

// The PCI devices of a machine and the tree that they form, from /sys/bus/pci/devices.
//
// For code that looks for GPUs, drives and the switches between them. It opens no device and changes none; above all it
// never touches p2pmem/allocate: on a GPU that file hands out memory that belongs to others.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topology/root.h"
#include "topology/tristate.h"

namespace penstock::core {

constexpr unsigned kPciGenerations = 7;

struct PciLink {
  double gigatransfers_per_second = 0;  // 0 if unknown.
  unsigned width = 0;                   // Lanes.

  static PciLink of_generation(unsigned generation, unsigned width);  // From 1 to kPciGenerations; 0 is an unknown one.
  // The newest generation whose lanes are no faster: 5 for 32 GT/s; 0 if unknown.
  unsigned generation() const;
  // Each way, what the encoding of its symbols leaves for packets; 0 if unknown.
  double bytes_per_second() const;
};

// The sizes of BARs, counted as makers count: a BAR that is 64 bits wide takes two of the six registers and is one BAR.
// So a GPU's memory is BAR 1, whether BAR 0 is 32 bits wide or 64. 0 if there is none, or if unknown.
constexpr std::size_t kPciBarRegisters = 6;
using PciBars = std::array<std::uint64_t, kPciBarRegisters>;

struct PciDevice {
  std::string address;  // "0000:17:00.0"
  std::uint16_t vendor = 0;
  std::uint16_t device = 0;
  std::uint32_t device_class = 0;  // 0x010802 for NVMe.
  int numa_node = -1;
  PciLink current_link;
  PciLink max_link;
  std::string host_bridge;           // "pci0000:16"
  std::vector<std::string> bridges;  // Addresses from the root port down to the parent.
  std::string driver;                // "nvme"; "" if none is bound.
  int iommu_group = -1;
  PciBars bar_bytes{};
  Tristate redirects_peer_traffic = Tristate::no;  // For bridges only, from ACS. Only root can read its registers.
  bool has_peer_memory = false;                    // It has a directory p2pmem: a driver gave the kernel device pages.
  std::uint64_t peer_memory_bytes = 0;

  bool is_display() const { return device_class >> 16 == 0x03; }
  bool is_nvidia_gpu() const { return is_display() && vendor == 0x10de; }
  bool is_amd_gpu() const { return (is_display() || device_class >> 8 == 0x1200) && vendor == 0x1002; }
  bool is_gpu() const { return is_nvidia_gpu() || is_amd_gpu(); }
  bool is_nvme() const { return device_class == 0x010802; }
  // An adapter that data may come by: Ethernet, InfiniBand (also as a serial bus) or another fabric, and no Wi-Fi.
  bool is_nic() const { return is_nic_class(device_class); }
  static bool is_nic_class(std::uint32_t device_class) {
    const std::uint32_t kind = device_class >> 8;
    return kind == 0x0200 || kind == 0x0207 || kind == 0x0208 || kind == 0x0c06;
  }
  bool is_bridge() const { return device_class >> 8 == 0x0604; }
};

constexpr std::size_t kPciDevicesMax = 4096;
std::vector<PciDevice> read_pci_devices(const Root& root);
PciBars read_pci_bars(const Root& root, std::string_view address);

// "0000:17:00.0", also with the longer domains of VMD and Hyper-V.
bool is_pci_address(std::string_view text);
// The last PCI address among a path's components, or "".
std::string pci_address_in(std::string_view path);

// The distance of two devices for peer-to-peer traffic.
enum class PciRelation : std::uint8_t {
  same_switch,       // They share a bridge below the root port: traffic can stay below it.
  same_host_bridge,  // They are below different root ports of one host bridge: traffic passes the CPU's root complex.
  different_host_bridges,
};
PciRelation pci_relation(const PciDevice& one, const PciDevice& other);
const char* pci_relation_name(PciRelation relation);

}  // namespace penstock::core
