// SPDX-License-Identifier: Apache-2.0

// The sources of cuFile's entry points share this: the driver that they ask, and their shortest answers.
#pragma once

#include <sys/types.h>

#include <cerrno>

#include "cufile/driver.h"
#include "cufile/errors.h"

namespace penstock::core::entry_points {

inline CufileDriver& driver() { return CufileDriver::instance(); }

inline CUfileError_t ok() { return cufile_error(CU_FILE_SUCCESS); }
inline CUfileError_t refuse(CUfileOpError error) { return cufile_error(error); }

// The answer of a call that reads or writes and names an errno.
inline ssize_t fail(int error_number) {
  errno = error_number;
  return -1;
}

}  // namespace penstock::core::entry_points
