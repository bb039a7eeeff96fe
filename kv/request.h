// SPDX-License-Identifier: Apache-2.0

// A request to a store, and its outcome.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <optional>
#include <span>

#include "base/status.h"
#include "kv/format.h"

namespace penstock::kv {

// The numbers are those of Python's penstock.kv.Outcome.
enum class Outcome : std::uint8_t {
  done = 0,      // put: it is there now; get: its bytes are in memory; the others: it was there.
  present = 1,   // put: it was there, or is being put; nothing was written.
  miss = 2,      // There is no such chunk.
  damaged = 3,   // There was one, and its header, its checksum or its length is wrong: it is dropped.
  mismatch = 4,  // get: the chunk has another size than the memory for it.
  full = 5,      // put: all that could make room is pinned or in use.
  large = 6,     // put: larger than an extent.
  failed = 7,    // The drive failed; the status says how.
  late = 8       // get: it was not there in time. Never from a store, but from a caller that waits for one.
};
constexpr unsigned kOutcomes = 9;

struct Request {
  Name key{};
  std::span<const iovec> pieces;  // Host or device memory: the payload, one piece behind the other.
  float cost =
      0;  // put: the seconds that it takes to compute the chunk again. A cost that is no such number counts as 0.
  Outcome outcome = Outcome::miss;
  core::Status status{};
  bool is_pinned = false;  // put: the chunk is pinned as soon as it is there, until unpin().
  // put: the payload's checksum, where it is known. A payload with another one is damaged, and is not written.
  std::optional<std::uint32_t> crc{};
  Chunk chunk{};  // The store's own: the slot that it has found for the request.
};

}  // namespace penstock::kv
