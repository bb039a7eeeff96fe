// SPDX-License-Identifier: Apache-2.0

// The answer of a queue that is full: the limit, the setting that made it, and the way to make room. Queues and batches
// ask for the text once each, since programs may submit until they are refused.
#pragma once

#include <cstddef>

#include "base/status.h"

namespace penstock::core {

class FullQueue {
 public:
  // `depth`: how many requests may be submitted and not reaped.
  Status status(std::size_t depth);

 private:
  const char* step_ = nullptr;
};

}  // namespace penstock::core
