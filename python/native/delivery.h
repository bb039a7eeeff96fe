// SPDX-License-Identifier: Apache-2.0

// Copies bytes from host memory of this module to the program's memory.
#pragma once

#include <cstdint>

#include "python/native/memory.h"
#include "python/native/session.h"

namespace penstock::python {

// Copies to the address `into`, which is in `memory`. Call it without the GIL.
penstock_status deliver(const SessionHandle& session, const Memory& memory, void* into, const std::byte* from,
                        std::uint64_t bytes);

}  // namespace penstock::python
