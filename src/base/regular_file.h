// SPDX-License-Identifier: Apache-2.0

// Opens what must be a regular file, whatever lies under its name. A pipe would have whoever opens it wait for ever,
// and a device may do something when it is opened.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace penstock::core {

struct RegularFile {
  UniqueFd fd;  // It blocks as others do.
  struct stat facts {};
};

// flags, mode: as of open(2). What is no regular file fails at once: with EISDIR or ELOOP (O_NOFOLLOW), else with
// Code::unsupported_file. `step`, as of Status, is told with the path behind it.
Result<RegularFile> open_regular(const std::string& path, int flags, mode_t mode, const char* step);

}  // namespace penstock::core
