// SPDX-License-Identifier: Apache-2.0

// cuFile's calls on CUDA streams, refused as NVIDIA's library does (1.15.1). frontend/streams.h moves the bytes.
#include <cerrno>
#include <limits>
#include <optional>

#include "cufile.h"
#include "cufile/entry_points.h"
#include "cufile/stats.h"
#include "frontend/streams.h"

namespace core = penstock::core;

namespace {

using core::CufileDriver;
using core::entry_points::driver;

constexpr std::uint64_t kSizeMax = std::numeric_limits<std::int64_t>::max();

CUfileError_t to_error(const core::Status& status) {
  if (status.is(core::Code::unsupported)) return core::cufile_error(CU_FILE_ASYNC_NOT_SUPPORTED);
  return core::cufile_error(status);
}

// The number of bytes, or a negative errno or CUfileOpError, since a stream's result has no errno.
std::int64_t result_word(const core::RawRequest& request, const core::Outcome& outcome) {
  const core::Status& status = outcome.status;
  if (status.ok()) return static_cast<std::int64_t>(outcome.report.bytes);
  if (status.is(core::Code::invalid_argument)) return -CU_FILE_INVALID_VALUE;
  const bool outside = status.is(core::Code::out_of_range) || status.is(core::Code::past_allocation);
  if (outside) return -CU_FILE_INVALID_MAPPING_SIZE;
  const bool before = status.is(core::Code::negative_offset) && request.file_offset >= 0;
  return before ? -CU_FILE_INTERNAL_ERROR : -core::cufile_errno(status);
}

void deliver(void* result, const core::RawRequest& request, const core::Outcome& outcome) {
  __atomic_store_n(static_cast<std::int64_t*>(result), result_word(request, outcome), __ATOMIC_RELEASE);
}

void count_whole(core::Session& session, const core::RawRequest& request, const core::Outcome& outcome,
                 std::uint64_t began) {
  core::count_transfer(session, request, outcome, began, false);
}

constexpr core::StreamHooks kHooks = {deliver, core::stats_clock, count_whole};

// Also writes the error to the result, if there is one.
CUfileError_t refuse(ssize_t* result) {
  if (result != nullptr) *result = -EINVAL;
  return core::cufile_error(CU_FILE_INVALID_VALUE);
}

CUfileError_t refuse(ssize_t* result, CUfileOpError error) {
  *result = -error;
  return core::cufile_error(error);
}

// 1.20 refuses at the call what can be seen then: a file that is open in the other direction, and a range behind the
// registration or allocation. 1.15 tells these in the result word.
std::optional<CUfileOpError> visible_fault(core::Session& session, const core::RawRequest& request) {
  const core::PinnedFile file(session, request.file);
  if (!file || request.size == 0) return std::nullopt;
  core::RoutedRequest unused;
  const core::Status status = session.admit(request, file.get(), unused);
  using core::Code;
  const bool is_seen = status.is(Code::not_readable) || status.is(Code::not_writable) ||
                       status.is(Code::out_of_range) || status.is(Code::past_allocation);
  if (!is_seen) return std::nullopt;
  return static_cast<CUfileOpError>(-result_word(request, {status, {}}));
}

CUfileError_t submit(core::Op op, CUfileHandle_t handle, void* base, const size_t* size, const off_t* file_offset,
                     const off_t* buffer_offset, ssize_t* result, CUstream stream) {
  const core::Result<CufileDriver::Use> use = driver().open_and_use();
  if (!use.ok()) return core::cufile_error(use.status());
  const bool complete = handle != nullptr && base != nullptr && size != nullptr && file_offset != nullptr &&
                        buffer_offset != nullptr && result != nullptr;
  if (!complete || *size > kSizeMax) return refuse(result);
  const core::StreamParameters parameters = {
      op, reinterpret_cast<std::uintptr_t>(handle), base, size, file_offset, buffer_offset, result};
  const bool newer = driver().follows_1_20();
  if (newer) {
    const std::optional<CUfileOpError> fault = visible_fault(use->session(), parameters.request());
    if (fault) return refuse(result, *fault);
  }
  const core::Status status = use->frontends().streams().submit(stream, parameters, kHooks);
  if (!status.is(core::Code::not_registered)) return to_error(status);
  return newer ? refuse(result, CU_FILE_HANDLE_NOT_REGISTERED) : refuse(result);
}

}  // namespace

extern "C" {

CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void* bufPtr_base, size_t* size_p, off_t* file_offset_p,
                              off_t* bufPtr_offset_p, ssize_t* bytes_read_p, CUstream stream) {
  return core::cufile_call([&] {
    return submit(core::Op::read, fh, bufPtr_base, size_p, file_offset_p, bufPtr_offset_p, bytes_read_p, stream);
  });
}

CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void* bufPtr_base, size_t* size_p, off_t* file_offset_p,
                               off_t* bufPtr_offset_p, ssize_t* bytes_written_p, CUstream stream) {
  return core::cufile_call([&] {
    return submit(core::Op::write, fh, bufPtr_base, size_p, file_offset_p, bufPtr_offset_p, bytes_written_p, stream);
  });
}

// Leaves a closed driver closed, as NVIDIA's. All streams are forgotten when the driver closes.
CUfileError_t cuFileStreamRegister(CUstream stream, unsigned flags) {
  return core::cufile_call([&] { return to_error(driver().register_stream(stream, flags)); });
}

CUfileError_t cuFileStreamDeregister(CUstream stream) {
  return core::cufile_call([&] { return to_error(driver().deregister_stream(stream)); });
}

}  // extern "C"
