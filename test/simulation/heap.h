// SPDX-License-Identifier: Apache-2.0

// The heap of a run in which each allocation has pages of its own, which nobody else gets and whose end is that of the
// allocation: who reads or writes behind it or after it was freed ends by a signal, there and then, on every machine.
// It costs some microseconds an allocation, so that few runs have it.
#pragma once

namespace penstock::simulation {

// What the program allocates from now on. Other memory is freed as it was allocated.
void guard_heap();

}  // namespace penstock::simulation
