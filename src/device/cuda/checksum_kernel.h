// SPDX-License-Identifier: Apache-2.0

// The kernel that makes checksums of device memory, as PTX: the driver compiles it for whatever GPU there is, of
// compute capability 5.2 and later. Each block of threads reads one ChecksumBlock. Its sum starts as the checksum of as
// many zeros; the kernel adds the contribution of its bytes, so that the result equals crc32c(), bit for bit. The
// memory may be at any address; at a multiple of sixteen it is read sixteen bytes at a time.
//
// The bytes are treated as whole rows of 4 KiB; the first row is padded in front with virtual zeros, which do not
// change the sum.
//
// Thread t reads words 4t to 4t + 3 of each row, and has a sum for each of the four: times x^(8 * 4096), by
// table, plus the next row's word. At the end each sum is multiplied by the factor for the words that follow its own in
// a row, and the sums are added.
#pragma once

#include <string>

namespace penstock::core {

inline constexpr unsigned kChecksumThreads = 256;
inline constexpr char kChecksumKernelName[] = "penstock_crc32c";

// Returns the PTX, with the tables of the host's arithmetic. The kernel takes the address of the array; its grid's x
// counts blocks.
std::string checksum_kernel_text();

}  // namespace penstock::core
