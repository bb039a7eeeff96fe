// SPDX-License-Identifier: Apache-2.0

#include "topology/pci_device.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "topology/text.h"

namespace penstock::core {
namespace {

constexpr std::array<double, kPciGenerations + 1> kGigatransfers = {0, 2.5, 5, 8, 16, 32, 64, 128};

bool is_hex(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
}

// "16.0 GT/s PCIe"; "Unknown" reads as 0.
double parse_speed(const std::string& text) {
  const double value = std::strtod(text.c_str(), nullptr);
  return value > 0 && value < 1024 ? value : 0;
}

PciLink read_link(const Root& root, const std::string& directory, const char* which) {
  PciLink link;
  link.gigatransfers_per_second = parse_speed(root.read_line(directory + "/" + which + "_link_speed"));
  // The kernel writes 255 (unknown) for a link that is down.
  const std::int64_t width = root.read_number(directory + "/" + which + "_link_width").value_or(0);
  link.width = width > 0 && width <= 32 ? static_cast<unsigned>(width) : 0;
  return link;
}

// Says whether a bridge's access control (ACS) sends requests, completions or egress traffic between its devices
// upstream. It reads the extended part of its configuration space; without privilege the kernel shows only the first 64
// bytes.
Tristate read_acs_redirect(const Root& root, const std::string& directory) {
  constexpr std::size_t kExtendedStart = 0x100;
  constexpr unsigned kAcsCapability = 0x000d;
  constexpr unsigned kRedirectBits = 0x4 | 0x8 | 0x20;
  constexpr unsigned kCapabilitiesMax = 960;  // The configuration space has room for no more.
  const std::string space = root.read(directory + "/config", 4096).value_or(std::string());
  if (space.size() <= 64) return Tristate::unknown;
  const auto word_at = [&](std::size_t at) {
    if (at + 2 > space.size()) return 0u;
    return static_cast<unsigned>(static_cast<unsigned char>(space[at]) | static_cast<unsigned char>(space[at + 1])
                                                                             << 8);
  };
  std::size_t at = kExtendedStart;
  for (unsigned seen = 0; at >= kExtendedStart && at + 8 <= space.size() && seen < kCapabilitiesMax; ++seen) {
    if (word_at(at) == kAcsCapability) return (word_at(at + 6) & kRedirectBits) != 0 ? Tristate::yes : Tristate::no;
    at = word_at(at + 2) >> 4 & 0xffc;
  }
  return Tristate::no;
}

// Reads everything above the device in "/sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0".
void read_parents(const Root& root, const std::string& directory, PciDevice& device) {
  const std::string real = root.real_path(directory);
  for (const std::string_view component : split(real, '/')) {
    if (component.starts_with("pci") && component.find(':') != std::string_view::npos) {
      device.host_bridge = std::string(component);
    } else if (is_pci_address(component) && component != device.address) {
      device.bridges.emplace_back(component);
    }
  }
}

PciDevice read_pci_device(const Root& root, const std::string& address) {
  const std::string directory = "/sys/bus/pci/devices/" + address;
  const auto number = [&](const char* name, std::int64_t otherwise) {
    return root.read_number(directory + "/" + name).value_or(otherwise);
  };
  PciDevice device;
  device.address = address;
  device.vendor = static_cast<std::uint16_t>(number("vendor", 0));
  device.device = static_cast<std::uint16_t>(number("device", 0));
  device.device_class = static_cast<std::uint32_t>(number("class", 0)) & 0xffffff;
  device.numa_node = static_cast<int>(number("numa_node", -1));
  device.current_link = read_link(root, directory, "current");
  device.max_link = read_link(root, directory, "max");
  device.driver = root.link_name(directory + "/driver");
  device.iommu_group = parse_number<int>(root.link_name(directory + "/iommu_group")).value_or(-1);
  device.has_peer_memory = root.exists(directory + "/p2pmem");
  device.peer_memory_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, number("p2pmem/size", 0)));
  device.bar_bytes = read_pci_bars(root, address);
  if (device.is_bridge()) device.redirects_peer_traffic = read_acs_redirect(root, directory);
  read_parents(root, directory, device);
  return device;
}

}  // namespace

PciLink PciLink::of_generation(unsigned generation, unsigned width) {
  return {generation <= kPciGenerations ? kGigatransfers[generation] : 0, width};
}

unsigned PciLink::generation() const {
  for (unsigned generation = kPciGenerations; generation >= 1; --generation) {
    if (gigatransfers_per_second >= kGigatransfers[generation] - 0.01) return generation;
  }
  return 0;
}

double PciLink::bytes_per_second() const {
  const unsigned own = generation();
  // From the sixth on, a FLIT of 256 bytes has 242 of packets and of the link's own words.
  const double share = own <= 2 ? 8.0 / 10 : own <= 5 ? 128.0 / 130 : 242.0 / 256;
  return gigatransfers_per_second * 1e9 / 8 * width * share;
}

bool is_pci_address(std::string_view text) {
  const std::string_view domain = take_until(text, ':');
  const std::string_view bus = take_until(text, ':');
  const std::string_view slot = take_until(text, '.');
  return domain.size() >= 4 && domain.size() <= 8 && is_hex(domain) && bus.size() == 2 && is_hex(bus) &&
         slot.size() == 2 && is_hex(slot) && text.size() == 1 && text[0] >= '0' && text[0] <= '7';
}

std::string pci_address_in(std::string_view path) {
  std::string_view found;
  for (const std::string_view component : split(path, '/')) {
    if (is_pci_address(component)) found = component;
  }
  return std::string(found);
}

PciBars read_pci_bars(const Root& root, std::string_view address) {
  constexpr std::uint64_t kIs64Bit = 0x00100000;  // Linux: IORESOURCE_MEM_64.
  const std::string directory = "/sys/bus/pci/devices/" + std::string(address);
  const std::string text = root.read(directory + "/resource", 4096).value_or(std::string());
  std::string_view rest = text;
  PciBars bars{};
  std::size_t bar = 0;
  // Lines "0x<first> 0x<last> 0x<flags>", one per register.
  for (std::size_t at = 0; at < kPciBarRegisters; ++at, ++bar) {
    const std::vector<std::string_view> words = split(take_until(rest, '\n'), ' ');
    if (words.size() < 2 || !words[0].starts_with("0x") || !words[1].starts_with("0x")) continue;
    const auto first = parse_number<std::uint64_t>(words[0].substr(2), 16);
    const auto last = parse_number<std::uint64_t>(words[1].substr(2), 16);
    if (!first || !last || *last <= *first) continue;
    bars[bar] = *last - *first + 1;
    const bool has_flags = words.size() > 2 && words[2].starts_with("0x");
    if (!has_flags || (parse_number<std::uint64_t>(words[2].substr(2), 16).value_or(0) & kIs64Bit) == 0) continue;
    (void)take_until(rest, '\n');  // This is the upper half of its address, not another BAR.
    ++at;
  }
  return bars;
}

std::vector<PciDevice> read_pci_devices(const Root& root) {
  std::vector<PciDevice> devices;
  for (const std::string& name : root.list("/sys/bus/pci/devices")) {
    if (devices.size() == kPciDevicesMax) break;
    if (is_pci_address(name)) devices.push_back(read_pci_device(root, name));
  }
  return devices;
}

PciRelation pci_relation(const PciDevice& one, const PciDevice& other) {
  if (one.host_bridge != other.host_bridge) return PciRelation::different_host_bridges;
  // The first bridge is the root port, which is a part of the root complex.
  const bool share_switch = one.bridges.size() > 1 && other.bridges.size() > 1 && one.bridges[0] == other.bridges[0] &&
                            one.bridges[1] == other.bridges[1];
  return share_switch ? PciRelation::same_switch : PciRelation::same_host_bridge;
}

const char* pci_relation_name(PciRelation relation) {
  switch (relation) {
    case PciRelation::same_switch: return "same_switch";
    case PciRelation::same_host_bridge: return "same_host_bridge";
    case PciRelation::different_host_bridges: return "different_host_bridges";
  }
  return "unknown";
}

}  // namespace penstock::core
