// SPDX-License-Identifier: Apache-2.0

// The few calls of CUDA's driver that order a request after all earlier work on a stream. This never loads the driver:
// a program that has memory of a GPU has it loaded.
#pragma once

#include <cstdint>

namespace penstock::python {

// Waits until all work is done that is on the stream now. `memory` tells the GPU, for streams that belong to whatever
// context is current (0, 1: the default stream; 2: the thread's). Without the GIL. Returns a CUresult; 0 also where
// there is no driver, since then there is no stream either.
int wait_for_stream(std::uint64_t stream, const void* memory);

}  // namespace penstock::python
