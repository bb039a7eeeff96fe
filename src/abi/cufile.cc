// cuFile's entry points: checks in the order that NVIDIA's library makes them, and translation. What a call means is
// the session's business.
#include "cufile.h"

#include <cerrno>

#include "abi/cufile_driver.h"
#include "abi/cufile_errors.h"

namespace core = penstock::core;

namespace {

using core::CufileDriver;

constexpr std::size_t kDirectIoKibMin = 64;
constexpr std::size_t kDirectIoKibMax = 16384;
constexpr int kVersion = 1150;  // cuFile 1.15, whose contract this is.

CufileDriver& driver() { return CufileDriver::instance(); }

CUfileError_t ok() { return core::cufile_error(CU_FILE_SUCCESS); }
CUfileError_t refuse(CUfileOpError error) { return core::cufile_error(error); }

std::uint64_t file_of(CUfileHandle_t handle) { return reinterpret_cast<std::uintptr_t>(handle); }

ssize_t fail(int error_number) {
  errno = error_number;
  return -1;
}

ssize_t transfer(core::Op op, CUfileHandle_t handle, const void* base, size_t size, off_t file_offset,
                 off_t buffer_offset) {
  if (handle == nullptr || base == nullptr) return fail(EINVAL);
  if (size == 0) return 0;
  if (file_offset < 0) return fail(CU_FILE_INVALID_VALUE);
  if (buffer_offset < 0) return fail(CU_FILE_INTERNAL_ERROR);
  core::Status opened;
  const CufileDriver::Use use(driver(), opened);
  if (!use) return fail(core::cufile_errno(opened));
  const core::Outcome outcome = use->transfer({op, file_of(handle), base, size, file_offset, buffer_offset});
  if (!outcome.status.ok()) return fail(core::cufile_errno(outcome.status));
  return static_cast<ssize_t>(outcome.report.bytes);
}

}  // namespace

extern "C" {

// ---- Driver --------------------------------------------------------------------------------------------------------

CUfileError_t cuFileDriverOpen(void) { return core::cufile_error(driver().open()); }

CUfileError_t cuFileDriverClose_v2(void) { return driver().close() ? ok() : refuse(CU_FILE_DRIVER_NOT_INITIALIZED); }

// The name that programs built before cuFile 1.4 use.
#undef cuFileDriverClose
CUfileError_t cuFileDriverClose(void) { return cuFileDriverClose_v2(); }

long cuFileUseCount(void) { return driver().use_count(); }

CUfileError_t cuFileGetVersion(int* version) {
  if (version == nullptr) return refuse(CU_FILE_INVALID_VALUE);
  *version = kVersion;
  return ok();
}

CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* props) {
  if (props == nullptr) return refuse(CU_FILE_INVALID_VALUE);
  core::Status opened;
  const CufileDriver::Use use(driver(), opened);
  if (!use) return core::cufile_error(opened);
  *props = driver().properties();
  return ok();
}

CUfileError_t cuFileDriverSetPollMode(bool poll, size_t poll_threshold_size) {
  const bool open = driver().change_properties([&](CUfileDrvProps_t& properties) {
    properties.nvfs.poll_thresh_size = poll_threshold_size;
    properties.nvfs.dcontrolflags =
        (properties.nvfs.dcontrolflags & ~(1u << CU_FILE_USE_POLL_MODE)) | (poll ? 1u << CU_FILE_USE_POLL_MODE : 0u);
  });
  return open ? ok() : refuse(CU_FILE_DRIVER_NOT_INITIALIZED);
}

CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t max_direct_io_size) {
  if (driver().use_count() == 0) return refuse(CU_FILE_DRIVER_NOT_INITIALIZED);
  if (max_direct_io_size < kDirectIoKibMin || max_direct_io_size > kDirectIoKibMax) {
    return refuse(CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
  }
  const bool open = driver().change_properties(
      [&](CUfileDrvProps_t& properties) { properties.nvfs.max_direct_io_size = max_direct_io_size; });
  return open ? ok() : refuse(CU_FILE_DRIVER_NOT_INITIALIZED);
}

// These two bound a GPU cache and BAR mappings, of which Penstock has none: they are accepted, and reported back.
CUfileError_t cuFileDriverSetMaxCacheSize(size_t max_cache_size) {
  const bool open = driver().change_properties(
      [&](CUfileDrvProps_t& properties) { properties.max_device_cache_size = static_cast<unsigned>(max_cache_size); });
  return open ? ok() : refuse(CU_FILE_DRIVER_NOT_INITIALIZED);
}

CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t max_pinned_size) {
  const bool open = driver().change_properties([&](CUfileDrvProps_t& properties) {
    properties.max_device_pinned_mem_size = static_cast<unsigned>(max_pinned_size);
  });
  return open ? ok() : refuse(CU_FILE_DRIVER_NOT_INITIALIZED);
}

// ---- Files and buffers ---------------------------------------------------------------------------------------------

CUfileError_t cuFileHandleRegister(CUfileHandle_t* fh, CUfileDescr_t* descr) {
  if (fh == nullptr || descr == nullptr) return refuse(CU_FILE_INVALID_VALUE);
  if (descr->type != CU_FILE_HANDLE_TYPE_OPAQUE_FD) return refuse(CU_FILE_IO_NOT_SUPPORTED);
  core::Status opened;
  const CufileDriver::Use use(driver(), opened);
  if (!use) return core::cufile_error(opened);
  const core::Result<std::uint64_t> file = use->register_file(descr->handle.fd);
  if (!file.ok()) return core::cufile_error(file.status());
  *fh = reinterpret_cast<CUfileHandle_t>(static_cast<std::uintptr_t>(*file));
  return ok();
}

void cuFileHandleDeregister(CUfileHandle_t fh) {
  const CufileDriver::Use use(driver());
  if (use) (void)use->deregister_file(file_of(fh));
}

CUfileError_t cuFileBufRegister(const void* bufPtr_base, size_t length, int) {
  core::Status opened;
  const CufileDriver::Use use(driver(), opened);
  if (!use) return core::cufile_error(opened);
  const core::Status status = use->register_buffer(bufPtr_base, length);
  if (status.is(core::Code::already_registered)) return refuse(CU_FILE_MEMORY_ALREADY_REGISTERED);
  return core::cufile_error(status);
}

CUfileError_t cuFileBufDeregister(const void* bufPtr_base) {
  const CufileDriver::Use use(driver());
  if (!use) return refuse(CU_FILE_DRIVER_CLOSING);
  const core::Status status = use->deregister_buffer(bufPtr_base);
  if (status.is(core::Code::not_registered)) return refuse(CU_FILE_MEMORY_NOT_REGISTERED);
  return core::cufile_error(status);
}

// ---- Transfers -----------------------------------------------------------------------------------------------------

ssize_t cuFileRead(CUfileHandle_t fh, void* bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset) {
  return transfer(core::Op::read, fh, bufPtr_base, size, file_offset, bufPtr_offset);
}

ssize_t cuFileWrite(CUfileHandle_t fh, const void* bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset) {
  return transfer(core::Op::write, fh, bufPtr_base, size, file_offset, bufPtr_offset);
}

// ---- Penstock's window into the driver -----------------------------------------------------------------------------

penstock_session* penstock_cufile_session(void) {
  const CufileDriver::Use use(driver());
  return use.handle();
}

penstock_file penstock_cufile_file(void* cufile_handle) { return file_of(cufile_handle); }

}  // extern "C"
