// SPDX-License-Identifier: Apache-2.0

// How much of a file is in the page cache.
#pragma once

#include <cstdint>
#include <optional>

namespace penstock::tools {

// The bytes of the range that are cached; size 0 means to the end of the file. Nothing if the kernel does not report
// them: on overlays, for block devices, and for files that this user neither owns nor may write.
std::optional<std::uint64_t> cached_bytes(int fd, std::uint64_t offset = 0, std::uint64_t size = 0);

}  // namespace penstock::tools
