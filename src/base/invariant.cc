// SPDX-License-Identifier: Apache-2.0

#include "base/invariant.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace penstock::core {

void invariant_broken(const char* expression, const char* file, int line) {
  char message[512];
  const int length =
      std::snprintf(message, sizeof message, "penstock: invariant broken: %s (%s:%d)\n", expression, file, line);
  const auto size = static_cast<std::size_t>(std::clamp(length, 0, static_cast<int>(sizeof message) - 1));
  if (::write(STDERR_FILENO, message, size) < 0) std::abort();
  std::abort();
}

}  // namespace penstock::core
