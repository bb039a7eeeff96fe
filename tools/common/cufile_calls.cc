// SPDX-License-Identifier: Apache-2.0

#include "tools/common/cufile_calls.h"

#include <fmt/format.h>

#include "facts/process.h"
#include "tools/common/failure.h"

namespace penstock::tools {

CufileFile::CufileFile(OpenFile opened, bool wants_handle) : opened_(std::move(opened)) {
  if (!wants_handle) return;
  CUfileDescr_t description{};
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = fd();
  require_cufile(cuFileHandleRegister(&handle_, &description), path(), "cuFileHandleRegister");
}

CufileFile::~CufileFile() {
  if (handle_ != nullptr) cuFileHandleDeregister(handle_);
}

void fail_cufile(const std::string& subject, const char* call, int error) {
  if (error < CUFILEOP_BASE_ERR) fail(subject, Status(penstock_status{PENSTOCK_DOMAIN_OS, 0, error, call}));
  throw Failure(fmt::format("{}: {} failed: {} ({})", subject, call,
                            cufileop_status_error(static_cast<CUfileOpError>(error)), error));
}

void require_cufile(CUfileError_t error, const std::string& subject, const char* call) {
  if (error.err == CU_FILE_SUCCESS) return;
  if (error.err == CU_FILE_CUDA_DRIVER_ERROR) {
    throw Failure(fmt::format("{}: {} failed: CUDA error {}", subject, call, static_cast<int>(error.cu_err)));
  }
  fail_cufile(subject, call, static_cast<int>(error.err));
}

void open_cufile_driver() {
  const CUfileError_t opened = cuFileDriverOpen();
  if (opened.err == CU_FILE_SUCCESS) return;
  const core::LoadedSettings loaded = facts::settings_for_cufile();
  if (loaded.must_refuse) throw Failure(core::describe(core::refusal_of(loaded)));
  // cuFile has one number for this, by which it calls a driver that nobody asked for.
  if (opened.err == CU_FILE_DRIVER_NOT_INITIALIZED) {
    throw Failure(
        "no path can move bytes between files and device memory for programs that call cuFile: "
        "properties.allow_compat_mode is false, and no direct path serves here; set it to true, or see 'penstock "
        "check' for what the direct paths lack");
  }
  require_cufile(opened, "cuFile", "cuFileDriverOpen");
}

Session cufile_session() {
  open_cufile_driver();
  penstock_session* session = nullptr;
  require(penstock_cufile_session(&session), "cuFile");
  return Session(session);
}

}  // namespace penstock::tools
