// SPDX-License-Identifier: Apache-2.0

// Finds the texts of every reason, the core's and all paths'.
#pragma once

#include "core/reason.h"
#include "topology/obstacle.h"

namespace penstock::core {

constexpr Reason reason_of(Obstacle obstacle) { return Reason(kFirstObstacle + static_cast<unsigned>(obstacle)); }

// "unknown" and empty texts for a number without a meaning.
ReasonText reason_text(Reason reason);
inline const char* reason_name(Reason reason) { return reason_text(reason).name; }
inline const char* reason_sentence(Reason reason) { return reason_text(reason).sentence; }
inline const char* reason_remedy(Reason reason) { return reason_text(reason).remedy; }

}  // namespace penstock::core
