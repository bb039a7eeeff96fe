// SPDX-License-Identifier: Apache-2.0

// A file whose bytes are moved by the callbacks of cuFile's CUfileFSOps_t.
#pragma once

#include <memory>

#include "cufile.h"
#include "storage/userspace_file.h"

namespace penstock::core {

// `handle` is the file system's own handle of the file; the caller owns the table of callbacks. Callbacks may call
// cuFile, but must not close its driver. Fails with unsupported if there is no table.
Result<std::unique_ptr<UserspaceFile>> userspace_file(const void* handle, const CUfileFSOps_t* calls);

}  // namespace penstock::core
