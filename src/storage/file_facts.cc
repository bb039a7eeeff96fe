// SPDX-License-Identifier: Apache-2.0

#include "storage/file_facts.h"

#include <linux/magic.h>

namespace penstock::core {
namespace {

struct Magic {
  std::uint64_t value;
  const char* name;
};

// From linux/magic.h, or from the file system's own source.
constexpr Magic kMagics[] = {
    {EXT4_SUPER_MAGIC, "ext4"},
    {XFS_SUPER_MAGIC, "xfs"},
    {BTRFS_SUPER_MAGIC, "btrfs"},
    {TMPFS_MAGIC, "tmpfs"},
    {RAMFS_MAGIC, "ramfs"},
    {OVERLAYFS_SUPER_MAGIC, "overlayfs"},
    {NFS_SUPER_MAGIC, "nfs"},
    {F2FS_SUPER_MAGIC, "f2fs"},
    {HUGETLBFS_MAGIC, "hugetlbfs"},
    {FUSE_SUPER_MAGIC, "fuse"},
    {V9FS_MAGIC, "9p"},
    {0x2fc12fc1, "zfs"},
    {0x0bd00bd0, "lustre"},
    {0x47504653, "gpfs"},
    {0x19830326, "beegfs"},
    {0x00c36400, "ceph"},
    {0xff534d42, "cifs"},
    {0xca451a4e, "bcachefs"},
    {0x2011bab0, "exfat"},
    {0x4d44, "vfat"},
    {0x7366746e, "ntfs3"},
    {0x62646576, "bdev"},
    {SQUASHFS_MAGIC, "squashfs"},
    {PROC_SUPER_MAGIC, "proc"},
    {SYSFS_MAGIC, "sysfs"},
};

}  // namespace

const char* file_system_name(std::uint64_t magic) {
  for (const Magic& known : kMagics) {
    if (known.value == magic) return known.name;
  }
  return "unknown";
}

}  // namespace penstock::core
