// SPDX-License-Identifier: Apache-2.0

// The only place that maps the core's failures to cuFile's numbers.
#pragma once

#include "base/status.h"
#include "capi/boundary.h"
#include "cufile.h"

namespace penstock::core {

// For functions that return CUfileError_t.
CUfileError_t cufile_error(CUfileOpError error);
CUfileError_t cufile_error(const Status& status);
// For cuFileRead and cuFileWrite: the errno beside -1, which is a system error or a CUfileOpError.
int cufile_errno(const Status& status);

// Runs `call` as an exported call that returns CUfileError_t.
template <typename Call>
CUfileError_t cufile_call(Call&& call) {
  return boundary(std::forward<Call>(call), [] { return cufile_error(CU_FILE_NOMEM_ERROR); });
}

}  // namespace penstock::core
