// SPDX-License-Identifier: Apache-2.0

// The proof that bytes which a drive reports as moved arrive in the device's memory, and nowhere else. A driver that
// exports wrong addresses passes the registration and reports success for every transfer, whatever becomes of the
// bytes; only comparing them shows it. The canary overwrites some pages of the device's memory, which must be the
// library's own, or about to be overwritten anyway; a driver that points elsewhere has it write up to 48 KiB there.
#pragma once

#include <functional>

#include "path/pipeline/self_test.h"

namespace penstock::core {

struct CanaryWorld {
  Device& device;
  CopyQueue& copies;  // Idle.
  std::byte* memory = nullptr;
  std::uint64_t memory_bytes = 0;  // At least kCanaryBytesMin for writes.
  // Exporters list their memory in entries, of equal sizes mostly. These meet at the boundary in the memory that is a
  // multiple of the largest power of two, counted from the export's begin.
  std::uint64_t seam = 0;
  FileIo& io;
  int drive = -1;  // Open with O_DIRECT.
  std::uint64_t drive_bytes = 0;
  // One transfer between the drive and the memory; offsets in bytes.
  std::function<Result<std::size_t>(Op, std::uint64_t memory_offset, std::size_t size, std::uint64_t drive_offset)>
      move;
};

inline constexpr std::uint64_t kCanaryBytesMin = 16u << 10;
inline constexpr std::uint64_t kCanaryPageBytes = 4u << 10;  // The least that canary_of_reads() takes.

// Reads blocks of the drive to the first page of the memory, across its seam, to the last page but one and across any
// other boundary of pages, twice, over other bytes than the block's, and compares them with what the host reads; the
// page behind must stay as it was. Less than kCanaryBytesMin of memory have no room for a page behind: there it is the
// first two pages and the last two. Blocks that others change meanwhile are read again.
Proof canary_of_reads(const CanaryWorld& world);
// Writes blocks of random bytes to the drive's first pages, which may be overwritten, and compares what the host reads.
// Call it only once reads are trusted: a write that fetches wrong bytes reports success, too.
Proof canary_of_writes(const CanaryWorld& world);

}  // namespace penstock::core
