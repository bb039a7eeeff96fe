// SPDX-License-Identifier: Apache-2.0

// Positioned reads and writes that go on until all is moved. The kernel may move less than it was asked for, and a
// signal may come between; whoever needs the whole comes here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace penstock::core {

// Returns the bytes read, fewer than asked for at the file's end alone. `step` is a literal that names the failure.
Result<std::size_t> read_all(int fd, std::span<std::byte> to, std::uint64_t offset, const char* step);
// A file that takes no more, and says no errno, fails with EIO.
Status write_all(int fd, std::span<const std::byte> from, std::uint64_t offset, const char* step);

}  // namespace penstock::core
