// SPDX-License-Identifier: Apache-2.0

#include "topology/rdma_device.h"

#include <algorithm>

#include "topology/pci_device.h"
#include "topology/text.h"

namespace penstock::core {
namespace {

constexpr std::size_t kDevicesMax = 256;
constexpr std::size_t kPortsMax = 16;
constexpr std::size_t kGidsMax = 2048;  // Devices made by software have 1024.
constexpr std::size_t kInterfacesMax = 64;
constexpr std::string_view kClass = "/sys/class/infiniband/";
// The bytes of a frame that RoCE's headers take: Linux, iboe_get_mtu().
constexpr unsigned kHeaderBytes = 96;

// "4: ACTIVE"
std::string state_in(std::string_view text) {
  (void)take_until(text, ':');
  return std::string(trim(text));
}

bool is_set(std::string_view gid) { return gid.find_first_not_of("0:") != std::string_view::npos; }

// True for fe80::/10, which every port makes from its hardware's address, and for 169.254.0.0/16 within IPv6.
bool is_of_one_link(std::string_view gid) {
  constexpr std::string_view kIpv4 = "0000:0000:0000:0000:0000:ffff:";
  const unsigned first = parse_number<unsigned>(gid.substr(0, gid.find(':')), 16).value_or(0);
  return (first & 0xffc0U) == 0xfe80U || (gid.starts_with(kIpv4) && gid.substr(kIpv4.size()).starts_with("a9fe:"));
}

// Reads one file for each priority, under the side that reacts and the side that notifies.
std::optional<bool> read_ecn(const Root& root, const std::string& interface) {
  std::optional<bool> found;
  for (const char* const side : {"roce_rp", "roce_np"}) {
    const std::string folder = interface + "/ecn/" + side + "/enable";
    for (const std::string& priority : root.list(folder)) {
      const auto value = root.read_number(folder + "/" + priority);
      if (value) found = found.value_or(false) || *value != 0;
    }
  }
  return found;
}

void add_interface(const Root& root, const std::string& name, RdmaPort& port) {
  const auto is_it = [&](const NetworkInterface& one) { return one.name == name; };
  if (name.empty() || name.find('/') != std::string::npos || port.interfaces.size() == kInterfacesMax ||
      std::any_of(port.interfaces.begin(), port.interfaces.end(), is_it)) {
    return;
  }
  const std::string folder = "/sys/class/net/" + name;
  const auto mtu = root.read_number(folder + "/mtu").value_or(0);
  port.interfaces.push_back({name, static_cast<unsigned>(std::clamp<std::int64_t>(mtu, 0, 1 << 20)),
                             read_ecn(root, folder), read_flow_control(root, name)});
}

void read_gids(const Root& root, const std::string& folder, RdmaPort& port) {
  std::size_t seen = 0;
  for (const std::string& index : root.list(folder + "/gids")) {
    if (++seen > kGidsMax) break;
    const std::string gid = root.read_line(folder + "/gids/" + index);
    if (!is_set(gid)) continue;
    ++port.gids;
    const std::string type = root.read_line(folder + "/gid_attrs/types/" + index);
    if (!type.empty()) ++port.typed_gids;
    if (type == "RoCE v2") {
      ++port.roce_v2_gids;
      if (!is_of_one_link(gid)) ++port.routed_gids;
    }
    add_interface(root, root.read_line(folder + "/gid_attrs/ndevs/" + index), port);
  }
}

bool is_made_by_software(const Root& root, const std::string& name) {
  return root.real_path(std::string(kClass) + name).starts_with("/sys/devices/virtual/");
}

RdmaPort read_port(const Root& root, const std::string& device, const std::string& name) {
  const std::string folder = device + "/ports/" + name;
  RdmaPort port;
  port.number = parse_number<unsigned>(name).value_or(0);
  port.state = state_in(root.read_line(folder + "/state"));
  port.link_layer = root.read_line(folder + "/link_layer");
  port.rate = root.read_line(folder + "/rate");
  read_gids(root, folder, port);
  return port;
}

RdmaDevice read_device(const Root& root, const std::string& name) {
  const std::string folder = std::string(kClass) + name;
  RdmaDevice device;
  device.name = name;
  device.pci_address = pci_address_in(root.real_path(folder + "/device"));
  device.is_software = is_made_by_software(root, name);
  for (const std::string& port : root.list(folder + "/ports")) {
    if (device.ports.size() == kPortsMax) break;
    device.ports.push_back(read_port(root, folder, port));
  }
  // Without a GID nothing names the interface of a port, but a device with one port has only one interface.
  if (device.ports.size() == 1 && device.ports[0].interfaces.empty() && device.ports[0].is_ethernet()) {
    add_interface(root, root.read_line(folder + "/parent"), device.ports[0]);
    for (const std::string& own : root.list(folder + "/device/net")) add_interface(root, own, device.ports[0]);
  }
  return device;
}

}  // namespace

std::vector<RdmaDevice> read_rdma_devices(const Root& root) {
  std::vector<RdmaDevice> devices;
  for (const std::string& name : root.list(kClass)) {
    if (devices.size() == kDevicesMax) break;
    devices.push_back(read_device(root, name));
  }
  return devices;
}

bool has_rdma_of_software_alone(const Root& root) {
  const std::vector<std::string> names = root.list(kClass);
  return !names.empty() && std::all_of(names.begin(), names.end(),
                                       [&](const std::string& name) { return is_made_by_software(root, name); });
}

unsigned rdma_mtu_on(unsigned interface_mtu) {
  if (interface_mtu <= kHeaderBytes) return 0;
  for (unsigned mtu = kRdmaMtuMost; mtu >= 256; mtu /= 2) {
    if (interface_mtu - kHeaderBytes >= mtu) return mtu;
  }
  return 0;
}

}  // namespace penstock::core
