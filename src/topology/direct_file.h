// SPDX-License-Identifier: Apache-2.0

// Judges if direct I/O on one file can stay direct: its file system, how it is mounted, and how the file is stored.
//
// For p2pdma's verdict and `penstock explain`. Facts come from an open descriptor (read_direct_file, on this machine
// only) or from a path alone (on a captured machine; facts that only the file itself shows are then left out). Judging
// is pure. It does not judge devices and queues: pass `storage` to peer_route().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "core/io.h"
#include "topology/block_device.h"
#include "topology/mounts.h"
#include "topology/obstacle.h"
#include "topology/root.h"
#include "topology/tristate.h"

namespace penstock::core {

// How the bytes of a range are stored, from FIEMAP. Holes count up to the file's end.
struct FileExtents {
  bool is_known = false;     // False if the file system does not report it.
  bool is_complete = false;  // False for more than kExtentsMax extents: there are more than those counted.
  std::uint64_t count = 0;
  std::uint64_t hole_bytes = 0;
  std::uint64_t unwritten_bytes = 0;
  std::uint64_t shared_bytes = 0;
  std::uint64_t inline_bytes = 0;   // In the inode or a shared block.
  std::uint64_t encoded_bytes = 0;  // Compressed.
  std::uint64_t encrypted_bytes = 0;
  std::uint64_t delayed_bytes = 0;  // Written but not placed yet: still in the page cache.
};
constexpr std::uint64_t kExtentsMax = 64 << 10;
constexpr std::uint64_t kWholeFile = UINT64_MAX;

struct DirectFile {
  std::string path;  // Absolute, with links resolved; "" if unknown.
  bool is_block_device = false;
  DeviceNumber device;  // st_dev, or st_rdev of a block device.
  int mount_id = -1;    // The number in mountinfo; -1 if unknown.
  std::uint64_t size = 0;
  Tristate is_compressed = Tristate::unknown;
  Tristate is_encrypted = Tristate::unknown;
  Tristate is_verity = Tristate::unknown;
  Tristate is_dax = Tristate::unknown;        // The CPU reads and writes its blocks in place.
  Tristate is_realtime = Tristate::unknown;   // XFS: its blocks are on another device than its inode.
  Tristate is_journaled = Tristate::unknown;  // ext4: its data goes through the journal (chattr +j).
  // For btrfs: no if chattr +C was given, which also switches checksums off.
  Tristate is_copied_on_write = Tristate::unknown;
  Tristate has_inline_data = Tristate::unknown;
  Tristate has_block_map = Tristate::unknown;    // For ext4: mapped by blocks, as in ext3, not by extents.
  Tristate takes_direct_io = Tristate::unknown;  // From STATX_DIOALIGN.
  std::uint32_t direct_memory_align = 0;         // 0 if unknown.
  std::uint32_t direct_offset_align = 0;
  // The errno if opening with O_DIRECT failed; 0: it succeeded, or is unknown.
  int direct_error = 0;
  FileExtents extents;
  std::uint64_t allocated_behind_end = 0;  // Preallocated bytes that no write has used.
};

// Reads the facts of an open regular file or block device. The extents are those of the range. Nothing is flushed
// first, so bytes that are only in the page cache count as delayed or as holes. Fails if fstat does.
Result<DirectFile> read_direct_file(int fd, std::uint64_t offset = 0, std::uint64_t size = kWholeFile);
// Reads what a captured machine knows of a file, or of a block device under /dev, by its absolute path.
DirectFile captured_file(const Root& root, std::string_view path);

struct DirectFileReport {
  std::optional<Mount> mount;  // The mount that holds the bytes: for an overlay that of the layer.
  // For peer_route(); nothing for memory, for network storage, and if it cannot be seen.
  std::optional<DeviceNumber> storage;
  Findings findings;  // Findings of the file system, then of the file.
};
DirectFileReport judge_direct_file(const Root& root, const MountTable& table, const DirectFile& file, Op op);

// Judges the mount alone: these findings hold for every new file on it.
Findings mount_findings(const Root& root, const MountTable& table, const Mount& mount, Op op);

// Returns the findings that one request adds: alignment, and a write past the file's end.
Findings request_findings(const DirectFile& file, Op op, std::uint64_t offset, std::uint64_t size,
                          std::uintptr_t memory);

}  // namespace penstock::core
