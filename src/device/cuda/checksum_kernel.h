// SPDX-License-Identifier: Apache-2.0

// The kernel that makes checksums of device memory, as PTX: the driver compiles it for whatever GPU there is, of
// compute capability 5.2 and later. Each block of threads reads one ChecksumBlock and adds to its sum, which is that of
// as many zeros, what its bytes make of it: then it is the one that crc32c() makes, bit for bit. The memory may lie at
// any address; at a multiple of sixteen it is read by sixteens.
//
// The bytes are seen as whole rows of 4 KiB, the first of which begins with zeros that are not there, since zeros in
// front change nothing.
//
// Thread t reads words 4t to 4t + 3 of each row, and has a sum for each of the four: times x^(8 * 4096), by
// table, plus the next row's word. In the end each sum is multiplied by what stands for the words behind it, and all
// are added up.
#pragma once

#include <string>

namespace penstock::core {

inline constexpr unsigned kChecksumThreads = 256;
inline constexpr char kChecksumKernelName[] = "penstock_crc32c";

// Its tables are those of the host's arithmetic, written out. The kernel takes the address of the array; its
// grid's x counts blocks.
std::string checksum_kernel_text();

}  // namespace penstock::core
