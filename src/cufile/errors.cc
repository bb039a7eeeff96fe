// SPDX-License-Identifier: Apache-2.0

#include "cufile/errors.h"

#include <cerrno>

#include "cufile/driver.h"

namespace penstock::core {
namespace {

CUfileOpError number_of(Code code) {
  switch (code) {
    case Code::ok: return CU_FILE_SUCCESS;
    case Code::invalid_argument: return CU_FILE_INVALID_VALUE;
    case Code::negative_offset: return CU_FILE_INVALID_VALUE;
    case Code::not_registered: return CU_FILE_HANDLE_NOT_REGISTERED;
    case Code::already_registered: return CU_FILE_HANDLE_ALREADY_REGISTERED;
    case Code::unsupported_file: return CU_FILE_INVALID_FILE_TYPE;
    case Code::unsupported_flags: return CU_FILE_INVALID_FILE_OPEN_FLAG;
    case Code::not_readable: return CU_FILE_INVALID_FILE_OPEN_FLAG;
    case Code::not_writable: return CU_FILE_INVALID_FILE_OPEN_FLAG;
    case Code::bad_pointer: return CU_FILE_CUDA_POINTER_INVALID;
    case Code::out_of_range: return CU_FILE_INVALID_MAPPING_RANGE;
    case Code::no_device: return CU_FILE_DEVICE_NOT_FOUND;
    case Code::path_refused: return CU_FILE_IO_NOT_SUPPORTED;
    case Code::unaligned_write: return CU_FILE_INVALID_VALUE;
    case Code::no_progress: return CU_FILE_IO_ERROR;
    case Code::out_of_memory: return CU_FILE_NOMEM_ERROR;
    case Code::limit: return CU_FILE_NOMEM_ERROR;
    case Code::closed: return CU_FILE_DRIVER_CLOSING;
    case Code::unsupported: return CU_FILE_IO_NOT_SUPPORTED;
    case Code::device_lost: return CU_FILE_INVALID_CONTEXT_ERROR;
    case Code::past_allocation: return CU_FILE_CUDA_POINTER_RANGE_ERROR;
    case Code::bad_setting: return by_version(CU_FILE_INVALID_VALUE, CU_FILE_DRIVER_INVALID_PROPS);
    case Code::denied: return CU_FILE_IO_DISABLED;
    case Code::no_direct_path: return CU_FILE_DRIVER_NOT_INITIALIZED;  // The same as on a machine without nvidia-fs.
    case Code::descriptor_lost: return CU_FILE_INVALID_VALUE;          // The same as for EBADF.
    case Code::canceled:
    case Code::timed_out:
    case Code::bad_stripe: break;  // No cuFile call can fail with these.
  }
  return CU_FILE_INTERNAL_ERROR;
}

CUfileOpError number_of_errno(int error_number) {
  switch (error_number) {
    case EBADF:
    case EINVAL: return CU_FILE_INVALID_VALUE;
    case EACCES:
    case EPERM: return CU_FILE_PERMISSION_DENIED;
    case EMFILE:
    case ENFILE: return CU_FILE_GETNEWFD_FAILED;
    case ENOMEM: return CU_FILE_NOMEM_ERROR;
    default: return CU_FILE_INTERNAL_ERROR;
  }
}

}  // namespace

CUfileError_t cufile_error(CUfileOpError error) { return {error, CUDA_SUCCESS}; }

CUfileError_t cufile_error(const Status& status) {
  switch (status.domain) {
    case Domain::penstock: return cufile_error(number_of(static_cast<Code>(status.code)));
    case Domain::os: return cufile_error(number_of_errno(status.code));
    case Domain::driver: return {CU_FILE_CUDA_DRIVER_ERROR, static_cast<CUresult>(status.code)};
  }
  return cufile_error(CU_FILE_INTERNAL_ERROR);
}

int cufile_errno(const Status& status) {
  if (status.domain == Domain::os) return status.code;
  if (status.domain == Domain::driver) return CU_FILE_CUDA_DRIVER_ERROR;
  switch (static_cast<Code>(status.code)) {
    // NVIDIA's library answers these with system errors.
    case Code::invalid_argument:
    case Code::unaligned_write: return EINVAL;
    case Code::bad_pointer:
    case Code::past_allocation:
    case Code::no_progress: return EIO;
    case Code::descriptor_lost: return EBADF;
    default: return number_of(static_cast<Code>(status.code));
  }
}

}  // namespace penstock::core
