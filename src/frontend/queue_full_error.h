// SPDX-License-Identifier: Apache-2.0

// The answer of a full queue: the limit, the setting that sets it, and how to make room. Queues and batches make the
// text only once, since programs may submit until they are refused.
#pragma once

#include <cstddef>

#include "base/status.h"

namespace penstock::core {

class QueueFullError {
 public:
  // `depth` is the number of requests that may be submitted and not reaped.
  Status status(std::size_t depth);

 private:
  const char* step_ = nullptr;
};

}  // namespace penstock::core
