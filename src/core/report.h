// SPDX-License-Identifier: Apache-2.0

// The outcome of a request.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "core/paths.h"
#include "core/reason.h"

namespace penstock::core {

struct Report {
  std::uint64_t bytes = 0;               // Bytes moved without a gap, from the start of the request.
  std::uint64_t direct_bytes = 0;        // The part that went by O_DIRECT; the rest went through the page cache.
  std::uint64_t bounced_bytes = 0;       // The part that went by the bounce path although `path` was chosen.
  Reason bounced_reason = Reason::none;  // The reason for bounced_bytes.
  PathId path = PathId::bounce;
  Reason reason = Reason::none;       // The reason why `refused` was not the path.
  Reason path_reason = Reason::none;  // The reason why the path itself is slower than it could be.
  int refused = -1;                   // The best path that refused, as a PathId; -1 if none did.
};

struct Outcome {
  Status status;
  Report report;
};

}  // namespace penstock::core
