// SPDX-License-Identifier: Apache-2.0

// Judges if direct I/O on one file can stay direct: its file system, how it is mounted, how the file is stored.
//
// For p2pdma's verdict and `penstock explain`. Facts come from an open descriptor (read_direct_file, this machine only)
// or from a path alone (a captured machine: facts that only the file itself could tell are then left out). Judging is
// pure. It says nothing of devices and queues: hand `storage` on to peer_route().
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

// How the bytes of a range are stored, as FIEMAP tells. Holes count up to the file's end.
struct FileExtents {
  bool is_known = false;     // False where the file system does not tell.
  bool is_complete = false;  // False for more than kExtentsMax extents: the counted ones are there, and more.
  std::uint64_t count = 0;
  std::uint64_t hole_bytes = 0;
  std::uint64_t unwritten_bytes = 0;
  std::uint64_t shared_bytes = 0;
  std::uint64_t inline_bytes = 0;   // In the inode or a shared block.
  std::uint64_t encoded_bytes = 0;  // Compressed.
  std::uint64_t encrypted_bytes = 0;
  std::uint64_t delayed_bytes = 0;  // Written, not placed yet: on the way out of the page cache.
};
constexpr std::uint64_t kExtentsMax = 64 << 10;
constexpr std::uint64_t kWholeFile = UINT64_MAX;

struct DirectFile {
  std::string path;  // Absolute, links resolved; "" where unknown.
  bool is_block_device = false;
  DeviceNumber device;  // st_dev, or st_rdev of a block device.
  int mount_id = -1;    // The number in mountinfo; -1 where unknown.
  std::uint64_t size = 0;
  Tristate is_compressed = Tristate::unknown;
  Tristate is_encrypted = Tristate::unknown;
  Tristate is_verity = Tristate::unknown;
  Tristate is_journaled = Tristate::unknown;        // ext4: its data goes through the journal (chattr +j).
  Tristate is_copied_on_write = Tristate::unknown;  // btrfs: no where chattr +C was given: no checksums either.
  Tristate has_inline_data = Tristate::unknown;
  Tristate has_block_map = Tristate::unknown;    // ext4: mapped by blocks, as ext3 did, not by extents.
  Tristate takes_direct_io = Tristate::unknown;  // By STATX_DIOALIGN.
  std::uint32_t direct_memory_align = 0;         // 0 where unknown.
  std::uint32_t direct_offset_align = 0;
  int direct_error = 0;  // The errno that a descriptor with O_DIRECT could not be opened with; 0: it can, or unknown.
  FileExtents extents;
  std::uint64_t allocated_behind_end = 0;  // Bytes that were asked for in advance, and that no write has used.
};

// Facts of an open regular file or block device. The extents are those of the range; asking for them writes nothing
// down first, so bytes still in the page cache alone count as delayed or as holes. Fails where fstat does.
Result<DirectFile> read_direct_file(int fd, std::uint64_t offset = 0, std::uint64_t size = kWholeFile);
// Reads what a captured machine can tell of a file, or of a block device under /dev, by its absolute path.
DirectFile captured_file(const Root& root, std::string_view path);

struct DirectFileReport {
  std::optional<Mount> mount;           // The one that holds the bytes: under an overlay that of the layer.
  std::optional<DeviceNumber> storage;  // For peer_route(); nothing for memory, the network and what cannot be seen.
  Findings findings;                    // File system, then file.
};
DirectFileReport judge_direct_file(const Root& root, const MountTable& table, const DirectFile& file, Op op);

// Judges by the mount alone: its findings hold for every new file on it.
Findings mount_findings(const Root& root, const MountTable& table, const Mount& mount, Op op);

// Returns the findings that one request adds: alignment, and a write past the file's end.
Findings request_findings(const DirectFile& file, Op op, std::uint64_t offset, std::uint64_t size,
                          std::uintptr_t memory);

}  // namespace penstock::core
