// SPDX-License-Identifier: Apache-2.0

// Makes allocations of this process fail: the program's, and those of every library, the C library included.
#pragma once

namespace penstock::failures {

// Fails allocation `first` of those that follow, counted from 0, and with `more` all behind it. None if it is negative.
void refuse_memory(long first, bool more);
long allocations();       // The number since the last refuse_memory().
long live_allocations();  // The number that were not freed, since the process began.

}  // namespace penstock::failures
