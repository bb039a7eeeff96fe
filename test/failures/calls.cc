// SPDX-License-Identifier: Apache-2.0

#include "failures/calls.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace penstock::failures {

bool refuse_call(long number, unsigned error, bool more) {
  return ::syscall(SYS_close, long{kBeginMark}, number, long{error}, long{more}) == 0;
}

RefusedCall end_of_refused_calls() {
  const long told = ::syscall(SYS_close, long{kEndMark});
  if (told <= 0) return {};
  return {told / 16, static_cast<unsigned>(told % 16)};
}

}  // namespace penstock::failures
