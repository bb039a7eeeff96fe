// SPDX-License-Identifier: Apache-2.0

// A request to a store, and its outcome.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "kv/format.h"

namespace penstock::kv {

// The numbers are those of Python's penstock.kv.Outcome.
enum class Outcome : std::uint8_t {
  done = 0,      // put: the chunk is stored; get: its bytes are in memory; the others: it was there.
  present = 1,   // put: the chunk was there, or is being put; nothing was written.
  miss = 2,      // There is no such chunk.
  damaged = 3,   // The chunk's header, checksum or length is wrong: it is dropped.
  mismatch = 4,  // get: the chunk has another size than the memory for it.
  full = 5,      // put: all chunks that could be evicted are pinned or in use.
  large = 6,     // put: the chunk is larger than an extent.
  failed = 7,    // The drive failed; the status says how.
  late = 8       // get: the chunk was not read in time. Returned by callers with a time limit, never by a store.
};
constexpr unsigned kOutcomes = 9;

struct Request {
  Name key{};
  std::span<const iovec> pieces;  // Host or device memory of the payload, in order.
  float cost = 0;                 // put: the seconds to compute the chunk again; an invalid number counts as 0.
  Outcome outcome = Outcome::miss;
  core::Status status{};
  // The pieces are host memory, of which the caller knows that it is there: it is copied and checked without a look.
  bool is_host = false;
  bool is_pinned = false;  // put: the chunk is pinned once stored, until unpin().
  // put: the payload's checksum, if known. A payload with another checksum counts as damaged, and is not written.
  std::optional<std::uint32_t> crc{};
  Chunk chunk{};          // Set by the store: the slot that it found for the request.
  bool is_short = false;  // get: fewer bytes came than the chunk has, without an error.
};

// Stores take requests by their addresses, so that a part of a call's requests can be passed on.
inline std::vector<Request*> each_of(std::span<Request> requests) {
  std::vector<Request*> each(requests.size());
  std::transform(requests.begin(), requests.end(), each.begin(), [](Request& one) { return &one; });
  return each;
}

}  // namespace penstock::kv
