// SPDX-License-Identifier: Apache-2.0

#include "session/denylist.h"

#include <sys/sysmacros.h>

#include <algorithm>

#include "topology/block_device.h"
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

// By name, or by a link to it such as /dev/mapper/data.
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

// By the kernel's driver of the device or of its controller, or by the kind as Penstock calls it.
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

const Mount* mount_of(const MountTable& table, const FileFacts& file, std::optional<int> mount_id) {
  if (mount_id) {
    for (const Mount& mount : table.mounts()) {
      if (mount.id == *mount_id) return &mount;
    }
  }
  return table.find(DeviceNumber{major(file.file_system_device), minor(file.file_system_device)});
}

}  // namespace

std::optional<int> mount_id_of(const Root& root, int fd) {
  const auto text = root.read("/proc/self/fdinfo/" + std::to_string(fd));
  return text ? parse_number<int>(value_of(*text, "mnt_id", ':')) : std::nullopt;
}

bool denies(const Denylist& list, const Root& root, const FileFacts& file, std::optional<int> mount_id) {
  if (list.empty()) return false;
  if (names(list.file_systems, file_system_name(file.file_system_magic))) return true;
  const MountTable table = MountTable::read(root);
  const Mount* mount = mount_of(table, file, mount_id);
  if (mount == nullptr) return !list.mounts.empty() || !list.file_systems.empty();
  if (names_mount(list.mounts, mount->mount_point) || names(list.file_systems, mount->type)) return true;
  if (list.devices.empty() && list.drivers.empty()) return false;
  if (is_network_file_system(mount->type)) return names(list.drivers, mount->type);
  if (mount->type == "tmpfs" || mount->type == "ramfs") return false;
  const std::optional<DeviceNumber> number = file.type == FileType::block_device
                                                 ? DeviceNumber{major(file.block_device), minor(file.block_device)}
                                                 : mount_device(root, table, *mount);
  const auto stack = number ? read_block_device(root, table, *number) : std::nullopt;
  return !stack || names_stack(list, root, *stack);
}

bool denies(const Denylist& list, const FileFacts& file, int fd) {
  if (list.empty()) return false;
  const Result<Root> machine = Root::open("/");
  return !machine.ok() || denies(list, *machine, file, mount_id_of(*machine, fd));
}

}  // namespace penstock::core
