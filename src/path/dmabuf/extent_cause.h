// SPDX-License-Identifier: Apache-2.0

// The causes for which a file, or a part of it, is not read straight from its drive (held_extents.h).
#pragma once

#include <cstdint>

namespace penstock::core {

enum class ExtentCause : std::uint8_t {
  none,
  // The file is unfit, and stays so.
  not_a_file,   // No regular file.
  file_system,  // Neither ext4 nor XFS.
  realtime,     // XFS: its blocks are on another device.
  encrypted,
  verity,
  compressed,
  dax,
  journaled,     // ext4: its data goes through the journal, by data=journal or chattr +j.
  drive_node,    // The node of its drive cannot be opened, or is another drive's.
  not_readable,  // It cannot be opened for reading once more.
  lease_denied,  // Neither the file's owner nor CAP_LEASE.
  no_lease,      // The kernel gives no lease on it for another reason.
  // This process is unfit, and stays so.
  inherited,        // The process that opened the file has forked this one.
  descriptor_lost,  // The program has closed our descriptor.
  no_helper,        // The thread that takes the leases' signal cannot be started.
  // The file is unfit at this moment.
  inline_data,       // So small that its bytes are in its inode.
  writers,           // Somebody has it open for writing, or, if this program is to write it, at all.
  cached,            // Pages of it stay in the page cache, which would hide what is written to the drive, or undo it.
  asked_back,        // Somebody waits to open it, and requests are still under way.
  extents_unknown,   // FIEMAP failed, or answered nonsense.
  too_many_extents,  // More than kExtentsMax.
  // The range is unfit.
  hole,
  unwritten,      // Allocated only: its blocks hold an older file's bytes.
  delayed,        // Written but not placed.
  packed,         // In an inode, or in a block with other files' ends.
  encoded,        // Compressed, encrypted or in another form.
  shared,         // Other files have the blocks, too: they may be read, and not written.
  unplaced,       // The kernel knows no place.
  unknown_flag,   // A flag that this library does not know.
  beyond_end,     // Not wholly in the file, whose last sector is taken as whole.
  misaligned,     // Not in whole sectors of the drive.
  too_scattered,  // More pieces than the caller has room for.
  // The range was read, and may have changed meanwhile.
  lease_lost,  // Somebody asked for the lease, or it is gone: the bytes may be another file's.
  moved,       // The range lies elsewhere now: the bytes may be another file's.
};

}  // namespace penstock::core
