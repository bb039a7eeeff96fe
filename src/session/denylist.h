// SPDX-License-Identifier: Apache-2.0

// Files that the configuration bars from direct paths: by the mount they are on, its file system, the block devices
// under it or their drivers. Asked once a file, when it is registered; the session then lets no direct path see it.
#pragma once

#include <string>
#include <vector>

#include "storage/file_facts.h"
#include "topology/mounts.h"
#include "topology/root.h"

namespace penstock::core {

struct Denylist {
  std::vector<std::string> drivers;       // "nvme", "virtio_blk", "nvme_rdma"; for a network file system its type.
  std::vector<std::string> devices;       // "/dev/nvme0n1", or the name alone: the device or one that it is made of.
  std::vector<std::string> mounts;        // Mount points.
  std::vector<std::string> file_systems;  // "ext4", "nfs", ...

  bool empty() const { return drivers.empty() && devices.empty() && mounts.empty() && file_systems.empty(); }
};

// The mount that an open descriptor was opened through; nothing where /proc does not tell.
std::optional<int> mount_id_of(const Root& root, int fd);

// Denies also where the mount or the devices that a list speaks of cannot be found: they might be the named ones.
bool denies(const Denylist& list, const Root& root, const FileFacts& file, std::optional<int> mount_id);
// The same on this machine.
bool denies(const Denylist& list, const FileFacts& file, int fd);

}  // namespace penstock::core
