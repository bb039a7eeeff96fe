// SPDX-License-Identifier: Apache-2.0

// Storage that a configuration excludes from direct paths: a mount point, a file system type, block devices under a
// mount or their drivers. The session checks one file (session/denylist.h), the tools whole file systems.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/block_device.h"
#include "topology/mounts.h"
#include "topology/root.h"

namespace penstock::core {

struct Denylist {
  std::vector<std::string> drivers;  // "nvme", "virtio_blk", "nvme_rdma"; for a network file system its type.
  // "/dev/nvme0n1", or the name alone: names the device itself or one of its parts.
  std::vector<std::string> devices;
  std::vector<std::string> mounts;        // Mount points.
  std::vector<std::string> file_systems;  // "ext4", "nfs", ...

  bool asks_for_devices() const { return !drivers.empty() || !devices.empty(); }
  bool empty() const { return !asks_for_devices() && mounts.empty() && file_systems.empty(); }
};

// `stack` is the devices under the mount. If it is unknown and the list names devices, this returns true: they might be
// the named ones.
bool denies(const Denylist& list, const Root& root, const Mount& mount, const std::optional<BlockDevice>& stack);

}  // namespace penstock::core
