// SPDX-License-Identifier: Apache-2.0

// Aborts on an internal error of Penstock, also in release builds: wrong bytes in a model's weights are worse than a
// crash. Never used for a mistake that a user can make. The sentence before the abort is the only thing that the
// library ever writes to the standard error stream.
#pragma once

namespace penstock::core {

[[noreturn]] void invariant_broken(const char* expression, const char* file, int line);

}  // namespace penstock::core

#define PENSTOCK_INVARIANT(expression) \
  ((expression) ? static_cast<void>(0) : ::penstock::core::invariant_broken(#expression, __FILE__, __LINE__))
