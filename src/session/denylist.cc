// SPDX-License-Identifier: Apache-2.0

#include "session/denylist.h"

#include <sys/sysmacros.h>

#include <algorithm>

#include "topology/block_device.h"
#include "topology/text.h"

namespace penstock::core {
namespace {

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
  const std::vector<std::string>& types = list.file_systems;
  if (std::find(types.begin(), types.end(), file_system_name(file.file_system_magic)) != types.end()) return true;
  const MountTable table = MountTable::read(root);
  const Mount* mount = mount_of(table, file, mount_id);
  if (mount == nullptr) return !list.mounts.empty() || !list.file_systems.empty();
  if (!list.asks_for_devices()) return denies(list, root, *mount, std::nullopt);
  const std::optional<DeviceNumber> number = file.type == FileType::block_device
                                                 ? DeviceNumber{major(file.block_device), minor(file.block_device)}
                                                 : mount_device(root, table, *mount);
  return denies(list, root, *mount, number ? read_block_device(root, table, *number) : std::nullopt);
}

bool denies(const Denylist& list, const FileFacts& file, int fd) {
  if (list.empty()) return false;
  const Result<Root> machine = Root::open("/");
  return !machine.ok() || denies(list, *machine, file, mount_id_of(*machine, fd));
}

}  // namespace penstock::core
