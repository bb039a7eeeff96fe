// SPDX-License-Identifier: Apache-2.0

// The drives of a session that have been reached by dma-bufs. A slot of a ring belongs to one open of a drive, and the
// trust of canaries and self-tests, too; so each drive is opened once, by a descriptor of our own that stays open until
// the session ends, however often its files are opened and closed. A drive is a raw one, or a partition.
#pragma once

#include <memory>
#include <vector>

#include "base/guarded_fd.h"
#include "path/pipeline/self_test.h"
#include "storage/file.h"

namespace penstock::core {

struct DmabufDrive {
  int fd() const { return node.get(); }
  std::uint64_t bytes() const { return facts.size; }
  // A number may be another drive's once it was opened anew.
  StorageKey key() const { return {.device = facts.block_device, .is_block_device = true, .open = number}; }

  std::uint32_t number = 0;
  GuardedFd node;  // Open with O_DIRECT. Transfers name it; the kernel refuses any other open of the drive.
  FileFacts facts;
  std::uint64_t operation_max = 0;  // The most bytes of one operation.
};

// One thread at a time opens drives. They live as long as this.
class DmabufDrives {
 public:
  explicit DmabufDrives(Descriptors& descriptors) : descriptors_(descriptors) {}

  // The block device that a program has open, with at least its rights, and as synchronous for writes. Fails with the
  // errno of opening it anew, and with ENXIO if that leads to another device.
  Result<DmabufDrive*> of_block_device(const File& file);
  // The drive that has the file system of that number, for reading, or also for writing (O_RDWR). Fails as
  // open_drive_node() does.
  Result<DmabufDrive*> of_file_system(dev_t device, int flags);

 private:
  DmabufDrive* find(dev_t device, int flags);
  Result<DmabufDrive*> add(Result<UniqueFd> node, dev_t device);

  Descriptors& descriptors_;
  std::vector<std::unique_ptr<DmabufDrive>> drives_;
};

}  // namespace penstock::core
