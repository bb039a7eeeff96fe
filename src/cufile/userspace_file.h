// SPDX-License-Identifier: Apache-2.0

// A file by the call-backs of cuFile's CUfileFSOps_t.
#pragma once

#include <memory>

#include "cufile.h"
#include "storage/userspace_file.h"

namespace penstock::core {

// `handle` is the file system's own name for the file; the table of call-backs stays the caller's. Call-backs may call
// cuFile, but must not close its driver. Fails with unsupported where there is no table.
Result<std::unique_ptr<UserspaceFile>> userspace_file(const void* handle, const CUfileFSOps_t* calls);

}  // namespace penstock::core
