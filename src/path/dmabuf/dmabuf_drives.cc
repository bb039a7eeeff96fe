// SPDX-License-Identifier: Apache-2.0

#include "path/dmabuf/dmabuf_drives.h"

#include <algorithm>
#include <cerrno>

#include "path/dmabuf/drive_node.h"

namespace penstock::core {
namespace {

constexpr int kSynchronous = O_SYNC | O_DSYNC;

// Reads need no more than any open of the drive has; only reads prove that bytes arrive, so all are readable.
bool serves(const FileFacts& drive, int flags) {
  const bool writes = (flags & O_ACCMODE) == O_RDWR;
  return !writes || (drive.writable() && (drive.open_flags & kSynchronous) == (flags & kSynchronous));
}

}  // namespace

Result<DmabufDrive*> DmabufDrives::of_block_device(const File& file) {
  const FileFacts& facts = file.facts();
  const int flags = (facts.writable() ? O_RDWR : O_RDONLY) | (facts.open_flags & kSynchronous);
  DmabufDrive* const known = find(facts.block_device, flags);
  return known != nullptr ? known : add(descriptors_.reopen(file.own_descriptor(), flags, true), facts.block_device);
}

Result<DmabufDrive*> DmabufDrives::of_file_system(dev_t device, int flags) {
  DmabufDrive* const known = find(device, flags);
  return known != nullptr ? known : add(open_drive_node(device, flags), device);
}

// A node that the program has closed stays in the list: channels know it, and do not use it.
DmabufDrive* DmabufDrives::find(dev_t device, int flags) {
  const auto is_it = [&](const std::unique_ptr<DmabufDrive>& one) {
    return one->facts.block_device == device && serves(one->facts, flags) && one->node.is_ours();
  };
  const auto found = std::find_if(drives_.begin(), drives_.end(), is_it);
  return found == drives_.end() ? nullptr : found->get();
}

Result<DmabufDrive*> DmabufDrives::add(Result<UniqueFd> node, dev_t device) {
  constexpr const char* kStep = "open the drive for direct transfers";
  if (!node.ok()) return node.status();
  const Result<FileFacts> facts = descriptors_.facts(node->get());
  if (!facts.ok()) return facts.status();
  if (facts->block_device != device) return os_failure(ENXIO, kStep);
  if (!facts->can_do_o_direct()) return os_failure(EINVAL, kStep);
  const auto number = static_cast<std::uint32_t>(drives_.size() + 1);
  drives_.push_back(std::make_unique<DmabufDrive>(DmabufDrive{number, GuardedFd(std::move(*node)), *facts}));
  return drives_.back().get();
}

}  // namespace penstock::core
