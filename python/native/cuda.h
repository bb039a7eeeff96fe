// SPDX-License-Identifier: Apache-2.0

// The few calls of CUDA's driver that order a request after all earlier work on a stream. This never loads the driver:
// a program with GPU memory has loaded it.
#pragma once

#include <cstdint>

namespace penstock::python {

// Waits until all current work of the stream is done. `memory` identifies the GPU, for streams of the current context
// (0, 1: the default stream; 2: the thread's). Call it without the GIL. Returns a CUresult; 0 also where there is no
// driver, since then there is no stream either.
int wait_for_stream(std::uint64_t stream, const void* memory);

}  // namespace penstock::python
