// SPDX-License-Identifier: Apache-2.0

// Every exported call that may wait or allocate goes through this.
//
//   return boundary([&]() -> CUfileError_t { ... }, [] { return cufile_error(CU_FILE_NOMEM_ERROR); });
#pragma once

#include <pthread.h>

#include <utility>

#include "base/shortage.h"

namespace penstock::core {

// A thread canceled within a call would leak a channel, a pin or a lock. So cancellation is deferred to the end of the
// call.
class HeldCancellation {
 public:
  HeldCancellation() { (void)::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~HeldCancellation() { (void)::pthread_setcancelstate(before_, nullptr); }
  HeldCancellation(const HeldCancellation&) = delete;
  HeldCancellation& operator=(const HeldCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// Returns what call() returns, or what instead() returns if memory was short.
template <typename Call, typename Instead>
auto boundary(Call&& call, Instead&& instead) -> decltype(call()) {
  const HeldCancellation held;
  return unless_short_of_memory(std::forward<Call>(call), std::forward<Instead>(instead));
}

}  // namespace penstock::core
