// SPDX-License-Identifier: Apache-2.0

#include "topology/denylist.h"

#include <algorithm>

#include "topology/text.h"

namespace penstock::core {
namespace {

bool names(const std::vector<std::string>& list, std::string_view name) {
  return !name.empty() && std::find(list.begin(), list.end(), name) != list.end();
}

std::string_view without_end_slash(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

bool names_mount(const std::vector<std::string>& list, std::string_view mount_point) {
  return std::any_of(list.begin(), list.end(),
                     [&](const std::string& entry) { return without_end_slash(entry) == mount_point; });
}

// True if the list names the device, directly or by a link such as /dev/mapper/data.
bool names_device(const std::vector<std::string>& list, const Root& root, const BlockDevice& device) {
  const auto is_it = [&](std::string_view name) { return name == device.name || name == device.disk; };
  return std::any_of(list.begin(), list.end(), [&](const std::string& entry) {
    return is_it(last_component(entry)) || (entry.starts_with('/') && is_it(last_component(root.real_path(entry))));
  });
}

const char* transport_driver(NvmeTransport transport) {
  switch (transport) {
    case NvmeTransport::rdma: return "nvme_rdma";
    case NvmeTransport::tcp: return "nvme_tcp";
    case NvmeTransport::fc: return "nvme_fc";
    case NvmeTransport::loop: return "nvme_loop";
    case NvmeTransport::none:
    case NvmeTransport::pcie:
    case NvmeTransport::unknown: break;
  }
  return "";
}

// True if the list names the kernel's driver of the device or of its controller, or the kind as Penstock calls it.
bool names_driver(const std::vector<std::string>& list, const Root& root, const BlockDevice& device) {
  const std::string at = "/sys/class/block/" + device.disk + "/device";
  return names(list, block_kind_name(device.kind)) || names(list, transport_driver(device.transport)) ||
         names(list, root.link_name(at + "/driver")) || names(list, root.link_name(at + "/device/driver"));
}

bool names_stack(const Denylist& list, const Root& root, const BlockDevice& device) {
  return names_device(list.devices, root, device) ||
         (!list.drivers.empty() && names_driver(list.drivers, root, device)) ||
         std::any_of(device.slaves.begin(), device.slaves.end(),
                     [&](const BlockDevice& slave) { return names_stack(list, root, slave); });
}

}  // namespace

bool denies(const Denylist& list, const Root& root, const Mount& mount, const std::optional<BlockDevice>& stack) {
  if (names_mount(list.mounts, mount.mount_point) || names(list.file_systems, mount.type)) return true;
  if (!list.asks_for_devices()) return false;
  if (is_network_file_system(mount.type)) return names(list.drivers, mount.type);
  if (mount.type == "tmpfs" || mount.type == "ramfs") return false;
  return !stack || names_stack(list, root, *stack);
}

}  // namespace penstock::core
