// SPDX-License-Identifier: Apache-2.0

#include "frontend/queue_full_error.h"

#include <string>

#include "base/kept_text.h"

namespace penstock::core {

Status QueueFullError::status(std::size_t depth) {
  if (step_ == nullptr) {
    step_ = kept_text("submit to the queue: its depth is " + std::to_string(depth) +
                          ", and as many requests are not reaped; reap some of them first, or open a queue with a "
                          "larger depth",
                      "submit to the queue: as many requests as its depth are not reaped; reap some of them first, or "
                      "open a queue with a larger depth");
  }
  return failure(Code::limit, step_);
}

}  // namespace penstock::core
