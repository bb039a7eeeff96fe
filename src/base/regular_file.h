// SPDX-License-Identifier: Apache-2.0

// Opens what must be a regular file, whatever lies under its name. To open a pipe may take for ever, and a device may
// do something when it is opened.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace penstock::core {

struct RegularFile {
  UniqueFd fd;           // It blocks as others do. -1 where there is an error.
  struct stat facts {};  // The facts of the file under the name, where they are known.
  int error = 0;         // EISDIR of a folder, ELOOP of a link (O_NOFOLLOW), EINVAL of anything else that is no file.
};

// Opens, as openat(2), whatever has the name; waits for the end of a lease, and for the other end of a pipe never. The
// descriptor has O_NONBLOCK, or has it not. -1, with errno, where it fails.
int open_without_waiting(int folder, const char* name, int flags, mode_t mode = 0);

// The name is looked up from the folder, as openat(2) does; flags and mode are as of that call.
RegularFile open_regular_file(int folder, const char* name, int flags = O_RDONLY, mode_t mode = 0);
RegularFile open_regular_file(const std::string& path, int flags = O_RDONLY, mode_t mode = 0);

// Does the same with a Status as error: anything but a regular file, a folder or a link is Code::unsupported_file.
// `step` is Status::step, and the path is added behind it.
Result<RegularFile> open_regular(const std::string& path, int flags, mode_t mode, const char* step);

}  // namespace penstock::core
