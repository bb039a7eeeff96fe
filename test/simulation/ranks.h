// SPDX-License-Identifier: Apache-2.0

// A KV store of several processes on a folder of a simulated drive: each has a session, a volume (kv/session_volume.h)
// and threads of its own; one holds the lease and writes, the others follow. One runs at a time, and hands on at any
// of its calls. Each ends at some time: it closes its store, is killed, or calls exit() while its threads are within
// calls. Then another process must become the writer at once and find each chunk that was committed, and nobody ever
// gets bytes that were not put. Or it is one process, whose drive loses power: any of the sectors, sizes and names that
// were not flushed are gone, and the next writer must find each chunk that was committed before.
#pragma once

#include <cstdint>

namespace penstock::simulation {

// The scheduler must have begun. Returns how many chunks were put or got.
std::uint64_t run_ranks();
std::uint64_t run_rank_with_power_loss();

}  // namespace penstock::simulation
