// SPDX-License-Identifier: Apache-2.0

// True if an errno means that a system call is missing here. Callers then use another call, and return its result: if
// EPERM was about the request itself, the other call fails with it again.
#pragma once

#include <cerrno>

namespace penstock::core {

// A kernel without the call returns ENOSYS; a seccomp filter returns its configured errno, mostly EPERM.
inline bool is_call_missing(int error) { return error == ENOSYS || error == EPERM; }

// The same for a call or a flag that a file system may lack.
inline bool is_missing_in_file_system(int error) {
  return is_call_missing(error) || error == EINVAL || error == EOPNOTSUPP;
}

}  // namespace penstock::core
