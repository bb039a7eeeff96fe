#include "topology/file_system.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace penstock::core {
namespace {

bool is_one_of(std::string_view type, std::initializer_list<std::string_view> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

Ability direct_io_of(const Mount& mount) {
  const std::string& type = mount.type;
  if (is_one_of(type, {"ext3", "ext4"}) && mount.super_option("data") == "journal") {
    return {Tristate::no, "data_journal", "data=journal turns direct I/O into buffered I/O"};
  }
  if (is_one_of(type, {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "vfat", "exfat", "ntfs3", "jfs"})) {
    return {Tristate::yes, "", ""};
  }
  if (is_one_of(type, {"nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "wekafs", "ceph"})) {
    return {Tristate::yes, "", ""};
  }
  if (is_one_of(type, {"tmpfs", "ramfs"})) return {Tristate::no, "memory", "the file system is memory"};
  if (is_one_of(type, {"squashfs", "iso9660", "udf"})) {
    return {Tristate::no, "file_system", "the file system has no direct I/O"};
  }
  if (type == "overlay") return {Tristate::unknown, "overlay", "as the file system under the overlay"};
  return {Tristate::unknown, "file_system", "depends on the file system's version and settings"};
}

// File systems whose direct I/O goes through iomap pass device pages on; those of the older code refuse them.
Ability device_pages_by_type(std::string_view type) {
  if (is_network_file_system(type)) {
    return {Tristate::no, "network_file_system", "network file systems refuse device pages"};
  }
  if (is_one_of(type, {"tmpfs", "ramfs"})) return {Tristate::no, "memory", "the file system is memory"};
  if (is_one_of(type, {"vfat", "exfat", "ntfs3", "jfs"})) {
    return {Tristate::no, "file_system", "the file system refuses device pages"};
  }
  if (type == "btrfs") return {Tristate::unknown, "checksums", "btrfs copies checksummed writes on the CPU"};
  if (is_one_of(type, {"ext3", "ext4", "xfs", "f2fs", "overlay"})) return {Tristate::yes, "", ""};
  return {Tristate::unknown, "file_system", "nothing is known of this file system"};
}

// The chain is as good as its weakest part.
Ability device_pages_of(const FileSystem& file_system) {
  const Ability by_type = device_pages_by_type(file_system.mount.type);
  if (by_type.has == Tristate::no) return by_type;
  if (!file_system.stack) return {Tristate::unknown, "stack_unseen", "the block device cannot be seen from here"};
  const PeerVerdict verdict = peer_verdict(*file_system.stack);
  if (verdict.support == PeerSupport::no) return {Tristate::no, verdict.code, verdict.because};
  if (file_system.direct_io.has == Tristate::no) return file_system.direct_io;
  if (by_type.has == Tristate::unknown) return by_type;
  return {verdict.support == PeerSupport::yes ? Tristate::yes : Tristate::unknown, verdict.code, verdict.because};
}

bool is_for_data(const Mount& mount) {
  return !is_pseudo_file_system(mount.type) && !mount.mount_point.starts_with("/sys/") &&
         !mount.mount_point.starts_with("/proc/");
}

// The mounts of one file system, best first in `mount`.
struct Choice {
  const Mount* mount;
  unsigned more = 0;
};

std::vector<Choice> choose_mounts(const MountTable& table) {
  const auto rank = [](const Mount& mount) { return std::pair(mount.root != "/", mount.mount_point.size()); };
  std::vector<Choice> choices;
  for (const Mount& mount : table.mounts()) {
    if (!is_for_data(mount) || !table.is_visible(mount)) continue;
    const auto same = std::find_if(choices.begin(), choices.end(), [&](const Choice& choice) {
      return choice.mount->device == mount.device && choice.mount->type == mount.type;
    });
    if (same == choices.end()) {
      choices.push_back({&mount});
      continue;
    }
    if (rank(mount) < rank(*same->mount)) same->mount = &mount;
    ++same->more;
  }
  return choices;
}

}  // namespace

std::vector<FileSystem> read_file_systems(const Root& root) {
  const MountTable table = MountTable::read(root);
  std::vector<FileSystem> file_systems;
  for (const Choice& choice : choose_mounts(table)) {
    FileSystem file_system;
    file_system.mount = *choice.mount;
    file_system.more_mounts = choice.more;
    if (const auto number = mount_device(root, table, file_system.mount)) {
      file_system.stack = read_block_device(root, table, *number);
    }
    file_system.direct_io = direct_io_of(file_system.mount);
    file_system.device_pages = device_pages_of(file_system);
    file_systems.push_back(std::move(file_system));
  }
  return file_systems;
}

}  // namespace penstock::core
