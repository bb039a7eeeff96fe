// SPDX-License-Identifier: Apache-2.0

// From memory of ours to where the program wants it.
#pragma once

#include <cstdint>

#include "python/native/memory.h"
#include "python/native/session.h"

namespace penstock::python {

// `into` is of `memory`. Without the GIL.
penstock_status deliver(const SessionHandle& session, const Memory& memory, void* into, const std::byte* from,
                        std::uint64_t bytes);

}  // namespace penstock::python
