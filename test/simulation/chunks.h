// SPDX-License-Identifier: Apache-2.0

// A store of KV chunks on a volume that is slow and fails: threads put, get, pin and commit at once, another rank
// follows, and power is lost. A get must return what was put last by the thread that owns the key, or nothing; after a
// loss of power, what was committed or put since.
#pragma once

#include <cstdint>

namespace penstock::simulation {

// The scheduler must have begun. Returns how many chunks were put or got.
std::uint64_t run_chunks();

}  // namespace penstock::simulation
