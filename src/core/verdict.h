// SPDX-License-Identifier: Apache-2.0

// A path's answer to a request: usable or not, with a stable reason, never a score.
#pragma once

#include "core/paths.h"
#include "core/reason.h"

namespace penstock::core {

struct Verdict {
  PathId path = PathId::bounce;
  bool usable = false;
  Reason reason = Reason::none;  // For a usable path: none, or why it is slower than it could be.
  int detail = 0;                // An errno that belongs to the reason, or from 5001 on a number of cuFile's; else 0.
};

constexpr Verdict usable(PathId path, Reason reason = Reason::none, int detail = 0) {
  return {path, true, reason, detail};
}
constexpr Verdict refused(PathId path, Reason reason, int detail = 0) { return {path, false, reason, detail}; }

}  // namespace penstock::core
