// SPDX-License-Identifier: Apache-2.0

// The facts of an open file, gathered once when it is registered. Values only; nothing here touches the file.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <cstdint>

namespace penstock::core {

enum class FileType : std::uint8_t { regular, block_device, userspace };

// The source of the direct-I/O alignment.
enum class AlignmentSource : std::uint8_t {
  none,          // The file cannot do direct I/O, or its direct I/O would be a copy through the page cache.
  statx,         // STATX_DIOALIGN: Linux 6.1, and file systems that support it.
  block_device,  // The logical block size of the device.
  assumed,       // Neither is known: 4096 bytes, which suits every device in use.
};

struct FileFacts {
  FileType type = FileType::regular;
  int open_flags = 0;      // From F_GETFL.
  std::uint64_t size = 0;  // In bytes, when the facts were gathered.
  std::uint64_t inode = 0;
  dev_t file_system_device = 0;           // st_dev.
  dev_t block_device = 0;                 // st_rdev of a block device; otherwise st_dev if that is a block device.
  std::uint64_t file_system_magic = 0;    // statfs f_type.
  std::uint64_t block_size = 0;           // Bytes of the file system's blocks: statfs f_bsize.
  std::uint32_t direct_memory_align = 0;  // Bytes; a power of two up to 4096. 0: no direct I/O.
  std::uint32_t direct_offset_align = 0;  // Bytes; a power of two up to 64 KiB. 0: no direct I/O.
  AlignmentSource alignment_source = AlignmentSource::none;
  bool denied = false;  // The configuration forbids direct paths for it.

  bool readable() const { return (open_flags & O_ACCMODE) != O_WRONLY; }
  bool writable() const { return (open_flags & O_ACCMODE) != O_RDONLY; }
  bool opened_o_direct() const { return (open_flags & O_DIRECT) != 0; }
  bool can_do_o_direct() const { return direct_offset_align != 0; }
  // nvidia-fs reports 4096 bytes as direct if any of them went by DMA. If blocks are smaller, some of them may be
  // holes: their zeros then stay in host memory, without an error.
  bool suits_nvidia_fs() const { return type != FileType::regular || (block_size != 0 && block_size % 4096 == 0); }
};

// "ext4", "xfs", ... for statfs's magic; "unknown" otherwise.
const char* file_system_name(std::uint64_t magic);

}  // namespace penstock::core
