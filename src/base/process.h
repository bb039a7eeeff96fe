// SPDX-License-Identifier: Apache-2.0

// Tells a forked child from the process that opened something. Threads, rings and device contexts do not survive a
// fork; the child must refuse everything that its parent opened, and leave it alone.
#pragma once

#include <cstdint>

namespace penstock::core {

// The number of forks between the first call, which must come before the fork, and this process. Costs one load.
std::uint32_t fork_count();

}  // namespace penstock::core
