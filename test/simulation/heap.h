// SPDX-License-Identifier: Apache-2.0

// Where a run's memory comes from. Most runs have a heap whose addresses are the same on each machine (steady_heap.h).
// In a guarded heap each allocation has pages of its own, which nobody else gets and whose end is that of the
// allocation: who reads or writes behind it or after it was freed ends by a signal, there and then, on every machine.
// That costs some microseconds an allocation, so that few runs have it.
#pragma once

namespace penstock::simulation {

// What the program allocates from now on. Other memory is freed as it was allocated.
void begin_heap(bool is_guarded);

}  // namespace penstock::simulation
