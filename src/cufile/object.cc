// SPDX-License-Identifier: Apache-2.0

// Three functions that NVIDIA's library exports from 1.20 on, without a declaration, for its own client of object
// stores (cuObject). Their arguments are not published, and nothing here does what they do. A program that links or
// looks for them starts all the same, and is refused when it calls them.
#include <string>

#include "base/log.h"
#include "cufile.h"
#include "cufile/errors.h"

namespace core = penstock::core;

namespace {

CUfileError_t refuse_object(const char* function) {
  return core::cufile_call([&] {
    core::log(core::LogLevel::error,
              std::string(function) +
                  " is refused (5008): cuObject's RDMA transfers of objects need NVIDIA's own "
                  "libcufile; this is Penstock's. Choose another transport in the object client");
    return core::cufile_error(CU_FILE_IO_NOT_SUPPORTED);
  });
}

}  // namespace

extern "C" {

CUfileError_t cuFileObjectInitialize(void) { return refuse_object("cuFileObjectInitialize"); }
CUfileError_t cuFileObjectDriverOpen(void) { return refuse_object("cuFileObjectDriverOpen"); }
CUfileError_t cuFileObjectDriverOpenForDiagnostics(void) {
  return refuse_object("cuFileObjectDriverOpenForDiagnostics");
}

}  // extern "C"
