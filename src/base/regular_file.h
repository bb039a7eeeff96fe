// SPDX-License-Identifier: Apache-2.0

// Opens a file only if it is a regular file. Opening a pipe may block for ever, and opening a device may have side
// effects.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace penstock::core {

struct RegularFile {
  UniqueFd fd;           // In blocking mode; -1 on error.
  struct stat facts {};  // The facts of the file with the name, if known.
  // EISDIR for a folder, ELOOP for a link (O_NOFOLLOW), EINVAL for anything else that is no regular file.
  int error = 0;
};

// Opens, like openat(2), anything that has the name. Waits for the end of a lease, but never for the other end of a
// pipe. The descriptor may or may not have O_NONBLOCK. -1, with errno, if it fails.
int open_without_waiting(int folder, const char* name, int flags, mode_t mode = 0);

// Looks the name up from the folder, like openat(2), whose flags and mode these are.
RegularFile open_regular_file(int folder, const char* name, int flags = O_RDONLY, mode_t mode = 0);
RegularFile open_regular_file(const std::string& path, int flags = O_RDONLY, mode_t mode = 0);

// Does the same, with a Status as error: anything but a regular file, a folder or a link is Code::unsupported_file.
// `step` is Status::step; the path is appended to it.
Result<RegularFile> open_regular(const std::string& path, int flags, mode_t mode, const char* step);

}  // namespace penstock::core
