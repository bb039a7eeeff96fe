// The only place that knows how the core's failures are said in cuFile's numbers.
#pragma once

#include "base/status.h"
#include "cufile.h"

namespace penstock::core {

// For functions that return CUfileError_t.
CUfileError_t cufile_error(CUfileOpError error);
CUfileError_t cufile_error(const Status& status);
// For cuFileRead and cuFileWrite: what errno is set to beside -1. A system error, or a CUfileOpError.
int cufile_errno(const Status& status);

}  // namespace penstock::core
