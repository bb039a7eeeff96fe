// SPDX-License-Identifier: Apache-2.0

// The seam between a store and storage: all that a store does with its folder on a drive. session_drive.h moves real
// bytes; a test's drive fails, tears and forgets them.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "penstock/penstock.h"

namespace penstock::kv {

// The outcome of a request to a drive.
struct Moved {
  core::Status status{};
  std::uint64_t bytes = 0;  // From the first on.
};

// A request for a range of the slab that is read into, or written from, pieces of host or device memory. Its file is
// left to the drive; the pieces are not copied.
penstock_request slab_request(penstock_op op, std::uint64_t offset, std::span<const iovec> pieces);
std::uint64_t bytes_of(std::span<const iovec> pieces);

class Drive {
 public:
  struct Journal {
    std::uint64_t identity = 0;  // It changes when the journal is replaced.
    std::vector<std::byte> bytes;
    std::uint64_t file_bytes = 0;  // The size of all its file, if it has one.
  };

  virtual ~Drive() = default;

  // Carries out requests for ranges of the slab, none of them empty, in any order and many at once. Returns when all
  // have ended, with the outcome of each. Sets their files and cookies. Any thread.
  virtual std::vector<Moved> transfer(std::span<penstock_request> requests) = 0;
  // Returns when all earlier writes to the slab are durable.
  virtual core::Status sync() = 0;
  // Makes the checksum of each piece; `sums` has one for each.
  virtual core::Status crc32c(std::span<const iovec> pieces, std::span<std::uint32_t> sums) = 0;

  // The slab where it can be read in place, as long as the drive lives; nothing where it is not in host memory.
  virtual std::span<const std::byte> in_memory() const { return {}; }

  // Reads the journal from that offset on, as far as there are records; nothing if there is none yet.
  virtual core::Result<Journal> read_journal(std::uint64_t offset) = 0;
  // Writes at that offset, durably. One thread at a time, as of the next.
  virtual core::Status write_journal(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  // In one step, durably: a reader finds the old journal or the new one.
  virtual core::Status replace_journal(std::span<const std::byte> bytes) = 0;
};

// Returns the checksum of each chunk, whose pieces are one behind the other. The drive looks at all of them together.
core::Result<std::vector<std::uint32_t>> checksums(Drive& drive, std::span<const std::span<const iovec>> chunks);

}  // namespace penstock::kv
