// cuFile's calls on CUDA streams, refused as NVIDIA's library does (1.15.1). When and how the bytes move is the
// session's business (session/streams.h).
#include <cerrno>
#include <limits>

#include "abi/cufile_driver.h"
#include "abi/cufile_errors.h"
#include "abi/cufile_stats.h"
#include "cufile.h"
#include "session/streams.h"

namespace core = penstock::core;

namespace {

using core::CufileDriver;

constexpr std::uint64_t kSizeMax = std::numeric_limits<std::int64_t>::max();

CufileDriver& driver() { return CufileDriver::instance(); }

CUfileError_t to_error(const core::Status& status) {
  if (status.is(core::Code::unsupported)) return core::cufile_error(CU_FILE_ASYNC_NOT_SUPPORTED);
  return core::cufile_error(status);
}

// Bytes, or a negative number: a system error or a CUfileOpError, as there is no errno to put it in.
std::int64_t result_word(const core::Outcome& outcome) {
  if (outcome.status.ok()) return static_cast<std::int64_t>(outcome.report.bytes);
  if (outcome.status.is(core::Code::invalid_argument)) return -CU_FILE_INVALID_VALUE;
  if (outcome.status.is(core::Code::out_of_range)) return -CU_FILE_INVALID_MAPPING_SIZE;
  return -core::cufile_errno(outcome.status);
}

constexpr core::StreamHooks kHooks = {result_word, core::stats_clock, core::count_transfer};

// The result says so as well, where there is one.
CUfileError_t refuse(ssize_t* result) {
  if (result != nullptr) *result = -EINVAL;
  return core::cufile_error(CU_FILE_INVALID_VALUE);
}

CUfileError_t submit(core::Op op, CUfileHandle_t handle, void* base, const size_t* size, const off_t* file_offset,
                     const off_t* buffer_offset, ssize_t* result, CUstream stream) {
  core::Status opened;
  const CufileDriver::Use use(driver(), opened);
  if (!use) return core::cufile_error(opened);
  const bool complete = handle != nullptr && base != nullptr && size != nullptr && file_offset != nullptr &&
                        buffer_offset != nullptr && result != nullptr;
  if (!complete || *size > kSizeMax) return refuse(result);
  const core::StreamParameters parameters = {
      op, reinterpret_cast<std::uintptr_t>(handle), base, size, file_offset, buffer_offset, result};
  const core::Status status = use->streams().submit(stream, parameters, kHooks);
  return status.is(core::Code::not_registered) ? refuse(result) : to_error(status);
}

}  // namespace

extern "C" {

CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void* bufPtr_base, size_t* size_p, off_t* file_offset_p,
                              off_t* bufPtr_offset_p, ssize_t* bytes_read_p, CUstream stream) {
  return submit(core::Op::read, fh, bufPtr_base, size_p, file_offset_p, bufPtr_offset_p, bytes_read_p, stream);
}

CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void* bufPtr_base, size_t* size_p, off_t* file_offset_p,
                               off_t* bufPtr_offset_p, ssize_t* bytes_written_p, CUstream stream) {
  return submit(core::Op::write, fh, bufPtr_base, size_p, file_offset_p, bufPtr_offset_p, bytes_written_p, stream);
}

CUfileError_t cuFileStreamRegister(CUstream stream, unsigned flags) {
  core::Status opened;
  const CufileDriver::Use use(driver(), opened);
  if (!use) return core::cufile_error(opened);
  return to_error(use->streams().register_stream(stream, flags));
}

// All streams are forgotten when the driver closes.
CUfileError_t cuFileStreamDeregister(CUstream stream) {
  const CufileDriver::Use use(driver());
  if (!use) return core::cufile_error(CU_FILE_INVALID_VALUE);
  return to_error(use->streams().deregister_stream(stream));
}

}  // extern "C"
