// SPDX-License-Identifier: Apache-2.0

// The outcome of a request to a store.
#pragma once

#include <cstdint>

namespace penstock::kv {

// The numbers are those of Python's penstock.kv.Outcome.
enum class Outcome : std::uint8_t {
  done = 0,     // put: it is there now; get: its bytes are in memory; the others: it was there.
  present = 1,  // put: it was there, or is being put; nothing was written.
  miss = 2,     // There is no such chunk.
  damaged = 3,  // There was one, and its header, its checksum or its length is wrong: it is dropped.
  unlike = 4,   // get: it has another size than the memory.
  full = 5,     // put: all that could make room is pinned or in use.
  large = 6,    // put: larger than an extent.
  failed = 7,   // The drive failed; the status says how.
  late = 8      // get: it was not there in time. Never from a store, but from a caller that waits for one.
};
constexpr unsigned kOutcomes = 9;

}  // namespace penstock::kv
