// SPDX-License-Identifier: Apache-2.0

// Says whether the process's own CPU may use memory that a caller names. Requests leave that to the kernel, which
// returns EFAULT; code that itself reads or writes a caller's memory calls this first, because a signal would kill the
// process.
//
// Since Linux 6.11 one call queries what is mapped, which takes a few microseconds for any size. On older kernels, and
// for little memory, the kernel touches each page: 0.16 us for a page of 4 KiB that was not used lately.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::core {

enum class Access : std::uint8_t { read, write };

// True if `size` is 0. A mapped file may still be truncated afterwards.
bool is_reachable(const void* memory, std::size_t size, Access access);

// The two ways, for tests. The first returns `never` if this kernel cannot do it, and `unknown` if the query failed
// this time.
enum class Mapped : std::uint8_t { yes, no, unknown, never };
Mapped is_mapped_for(std::uintptr_t begin, std::uintptr_t end, Access access);
bool are_pages_reachable(std::uintptr_t begin, std::uintptr_t end, Access access);

}  // namespace penstock::core
