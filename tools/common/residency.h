// SPDX-License-Identifier: Apache-2.0

// How much of a file is in the page cache.
#pragma once

#include <cstdint>
#include <optional>

namespace penstock::tools {

// Bytes of the range, size 0: to the end of the file; nothing where the kernel does not tell: on overlays, of block
// devices, and of files that are neither the user's nor the user's to write.
std::optional<std::uint64_t> cached_bytes(int fd, std::uint64_t offset = 0, std::uint64_t size = 0);

}  // namespace penstock::tools
