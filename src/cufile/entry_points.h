// SPDX-License-Identifier: Apache-2.0

// Helpers of cuFile's entry points: the driver, and how calls fail.
#pragma once

#include <sys/types.h>

#include <cerrno>

#include "core/io.h"
#include "cufile/driver.h"
#include "cufile/errors.h"

namespace penstock::core::entry_points {

inline CufileDriver& driver() { return CufileDriver::instance(); }

inline CUfileError_t ok() { return cufile_error(CU_FILE_SUCCESS); }
inline CUfileError_t refuse(CUfileOpError error) { return cufile_error(error); }

inline std::uint64_t file_of(CUfileHandle_t handle) { return reinterpret_cast<std::uintptr_t>(handle); }

// Fails a read or write call: sets errno and returns -1.
inline ssize_t fail(int error_number) {
  errno = error_number;
  return -1;
}

// cuFileRead and cuFileWrite are this. `is_piece`: the caller counts the transfer that this one is a piece of.
ssize_t transfer(RawRequest&& request, bool is_piece = false);

}  // namespace penstock::core::entry_points
