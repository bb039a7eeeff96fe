// SPDX-License-Identifier: Apache-2.0

#include "tools/common/stack_room.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>

#include "tools/common/failure.h"

namespace penstock::tools {
namespace {

constexpr rlim_t kStackMin = 1u << 20;

}  // namespace

// The kernel looks at the limit when the first thread's stack grows, so raising it here is soon enough.
void make_stack_room() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kStackMin) return;
  const rlim_t given = limit.rlim_cur;
  limit = {kStackMin, std::max(limit.rlim_max, kStackMin)};
  if (::setrlimit(RLIMIT_STACK, &limit) != 0) {
    throw Failure(fmt::format("the stack is limited to {} KiB and {} are needed; raise the limit (ulimit -s {})",
                              given / 1024, kStackMin / 1024, kStackMin / 1024),
                  kFailed);
  }
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return;
  (void)::pthread_attr_setstacksize(&attributes, kStackMin);
  (void)::pthread_setattr_default_np(&attributes);
  (void)::pthread_attr_destroy(&attributes);
}

}  // namespace penstock::tools
