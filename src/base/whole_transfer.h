// SPDX-License-Identifier: Apache-2.0

// Positioned reads and writes that continue until all bytes are moved. The kernel may move fewer bytes than requested,
// and a signal may interrupt it; callers that need all bytes use these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace penstock::core {

// Returns the bytes read, which are fewer than asked for only at the file's end. `step` is a literal that names the
// failure.
Result<std::size_t> read_all(int fd, std::span<std::byte> to, std::uint64_t offset, const char* step);
// Fails with EIO if the file takes no more bytes and there is no errno.
Status write_all(int fd, std::span<const std::byte> from, std::uint64_t offset, const char* step);

}  // namespace penstock::core
