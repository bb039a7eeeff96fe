// SPDX-License-Identifier: Apache-2.0

// Says by its errno that a system call is missing here. Callers then try another way, and take its result: EPERM may
// also be the answer to the request itself, and then the other way gives it again.
#pragma once

#include <cerrno>

namespace penstock::core {

// A kernel that does not have the call says ENOSYS; a seccomp filter says what it was told to, mostly EPERM.
inline bool is_call_missing(int error) { return error == ENOSYS || error == EPERM; }

// The same for a call or a flag that a file system may lack.
inline bool is_missing_in_file_system(int error) {
  return is_call_missing(error) || error == EINVAL || error == EOPNOTSUPP;
}

}  // namespace penstock::core
