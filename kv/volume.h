// SPDX-License-Identifier: Apache-2.0

// The seam between a store and storage: everything that a store does with its slab and its journal, which are a folder
// on a drive, or host memory. session_volume.h moves real bytes; a test's volume injects failures, torn and lost
// writes.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.h"
#include "kv/request.h"
#include "penstock/penstock.h"

namespace penstock::kv {

// The outcome of a request to a volume.
struct Moved {
  core::Status status{};
  std::uint64_t bytes = 0;  // Counted from the first byte.
};

// A request for a range of the slab that is read into, or written from, pieces of host or device memory. The volume
// sets its file; the pieces are not copied.
penstock_request slab_request(penstock_op op, std::uint64_t offset, std::span<const iovec> pieces);
std::uint64_t bytes_of(std::span<const iovec> pieces);

class Volume {
 public:
  struct Journal {
    std::uint64_t identity = 0;  // It changes when the journal is replaced.
    std::vector<std::byte> bytes;
    std::uint64_t file_bytes = 0;  // The size of its whole file, if it has one.
  };

  virtual ~Volume() = default;

  struct EndedRequest {
    std::size_t request = 0;  // Its place among those of the call.
    Moved moved;
  };
  using Ended = std::function<void(std::span<const EndedRequest>)>;

  // Executes requests for ranges of the slab, none of them empty, in any order and many at once. Calls `ended` on this
  // thread with those that have ended, while others go on, and returns when all have. Sets their files and cookies. Any
  // thread.
  virtual void transfer_each(std::span<penstock_request> requests, const Ended& ended) = 0;
  // Returns the outcome of each.
  std::vector<Moved> transfer(std::span<penstock_request> requests);
  // Returns when all earlier writes to the slab are durable.
  virtual core::Status sync() = 0;
  // Makes the checksum of each piece; `sums` has one for each.
  virtual core::Status crc32c(std::span<const iovec> pieces, std::span<std::uint32_t> sums) = 0;

  // The slab's bytes if it is in host memory, valid while the volume lives; else an empty span.
  virtual std::span<const std::byte> in_memory() const { return {}; }
  // A range of them, if host memory may be copied from and to it without a request; else an empty span.
  virtual std::span<std::byte> for_copies(std::uint64_t, std::uint64_t) { return {}; }

  // Reads the records of the journal from `offset` on; an empty result if there is no journal yet.
  virtual core::Result<Journal> read_journal(std::uint64_t offset) = 0;
  // Writes at `offset`, durably. One thread at a time, also for replace_journal().
  virtual core::Status write_journal(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  // Replaces the journal in one step, durably: a reader finds the old journal or the new one. If it fails with
  // `is_replaced` set, readers find the new one, but after a loss of power perhaps the old one.
  virtual core::Status replace_journal(std::span<const std::byte> bytes, bool& is_replaced) = 0;
};

// Returns the checksum of each request over its pieces in order. One call of the volume processes all of those that
// may be device memory.
core::Result<std::vector<std::uint32_t>> checksums(Volume& volume, std::span<Request* const> requests);

}  // namespace penstock::kv
