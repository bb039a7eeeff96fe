// SPDX-License-Identifier: Apache-2.0

// The node of the drive, or of the partition, that a file system lies on. A program that can read it
// reads all files on it, whatever their permissions.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <cstdint>

#include "base/status.h"
#include "base/unique_fd.h"

namespace penstock::core {

// Opens the node of a block device for direct reads, or also writes, by the name that the kernel gives it in /sys.
// Fails with the errno of what could not be opened, and with ENXIO if the name leads to another device.
Result<UniqueFd> open_drive_node(dev_t device, int flags = O_RDONLY);

// The size of the sectors of an open node, in bytes. Fails with ENXIO if the node is not that device's.
Result<std::uint32_t> drive_sector(int node, dev_t device);

}  // namespace penstock::core
