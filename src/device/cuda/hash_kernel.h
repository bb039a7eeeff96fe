// SPDX-License-Identifier: Apache-2.0

// The kernel that makes Hash64::of_block() of device memory, as PTX, beside checksum_kernel.h, with the same threads
// and blocks: each block of threads reads one ChecksumBlock and writes its `hash`. The memory may be at any address; at
// a multiple of sixteen it is read sixteen bytes at a time.
//
// Thread t mixes words 2t + 1 and 2t + 2 of each 4 KiB and adds them up; then the sums of all threads are added.
#pragma once

#include <string>

namespace penstock::core {

inline constexpr char kHashKernelName[] = "penstock_hash64";

// Returns the PTX. The kernel takes the address of the array; its grid's x counts blocks.
std::string hash_kernel_text();

}  // namespace penstock::core
