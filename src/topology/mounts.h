// SPDX-License-Identifier: Apache-2.0

// The mounts that a process sees, from its mountinfo in /proc. Finds the file system of a path or of a file's st_dev.
//
// Looking up is lexical: resolve links first. A path is looked up as the kernel walks it, so a mount hidden under a
// later one is never the answer. mount_device() finds the block device under a mount, since btrfs and overlayfs give
// their files device numbers of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "topology/root.h"
#include "topology/text.h"

namespace penstock::core {

struct Mount {
  int id = 0;
  int parent_id = 0;
  DeviceNumber device;  // st_dev of its files, except on btrfs subvolumes.
  std::string root;     // The part of the file system that is mounted: not "/" for a bind mount.
  std::string mount_point;
  std::string options;        // The options of the mount itself: "rw,relatime".
  std::string type;           // "ext4", "nfs4", "fuse.sshfs", ...
  std::string source;         // "/dev/vda", "server:/export", "none", ...
  std::string super_options;  // The options of the file system: "rw,data=journal".

  // The value of "key=value" among the super options, or "".
  std::string_view super_option(std::string_view key) const;
  bool has_super_option(std::string_view option) const;
};

// True for proc, sysfs, cgroup and the like, which hold no data.
bool is_pseudo_file_system(std::string_view type);
// True for nfs, cifs, lustre and the like, which have no local block device.
bool is_network_file_system(std::string_view type);

class MountTable {
 public:
  static constexpr std::size_t kMountsMax = 8192;
  static constexpr std::size_t kTextBytesMax = 4 << 20;
  static constexpr std::size_t kStepsMax = 256;  // The most mounts that one path leads through.

  MountTable() = default;
  explicit MountTable(std::vector<Mount> mounts);
  static MountTable parse(std::string_view mountinfo);
  static MountTable read(const Root& root);

  const std::vector<Mount>& mounts() const { return mounts_; }
  // Returns the mount that an absolute path is on, or null if none is known. Pointers live as long as the table.
  const Mount* find(std::string_view path) const;
  // Finds a mount by st_dev: prefers a mount of the whole file system to a bind mount of a part.
  const Mount* find(DeviceNumber device) const;
  bool is_visible(const Mount& mount) const { return find(mount.mount_point) == &mount; }

 private:
  static constexpr int kOutside = -1;  // No mount has this id: the kernel counts from 0.

  std::vector<Mount> mounts_;
  std::unordered_map<int, std::vector<std::size_t>> children_;  // By the parent's id, in the order of mounting.
};

// The block device that holds a mount's files: its own; for btrfs the device that the mount names; for overlayfs that
// of its upper directory, if it is visible here.
std::optional<DeviceNumber> mount_device(const Root& root, const MountTable& table, const Mount& mount);

// The place of a file that is on an overlay: the mount below and the path there. A mount of another type is its own
// layer, with `path`. The mount is null if the layer is not visible here, as in most containers. `is_write`: the file
// is opened for writing, which copies it into the upper layer.
struct Layer {
  const Mount* mount = nullptr;
  std::string path;
};
Layer find_layer(const Root& root, const MountTable& table, const Mount& mount, std::string_view path, bool is_write);

// The transport that an NFS mount really uses: "tcp", "rdma", ...; "" if nothing shows it. Mounts of one server share a
// connection, so the transport that a mount asked for says little.
std::string nfs_transport(const Root& root, const Mount& mount);

}  // namespace penstock::core
