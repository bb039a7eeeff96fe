// SPDX-License-Identifier: Apache-2.0

// cuFile's entry points: checks in the order that NVIDIA's library makes them, and translation. The session does the
// work.
#include "cufile.h"

#include <fcntl.h>

#include <cerrno>
#include <climits>
#include <cstdint>

#include "cufile/entry_points.h"
#include "cufile/stats.h"
#include "cufile/userspace_file.h"
#include "frontend/streams.h"
#include "frontend/transfer.h"

namespace core = penstock::core;

namespace {

using core::CufileDriver;
using core::CufileOperation;
using core::CufileStats;
using core::entry_points::driver;
using core::entry_points::fail;
using core::entry_points::file_of;
using core::entry_points::ok;
using core::entry_points::refuse;

constexpr auto kCudaInvalidValue = static_cast<CUresult>(1);

// Returns NVIDIA's error for impossible ranges, or 0 if the session must decide.
int range_error(size_t size, off_t file_offset, off_t buffer_offset) {
  if (file_offset < 0) return CU_FILE_INVALID_VALUE;
  if (size == 0) return 0;
  if (buffer_offset < 0 || size > SIZE_MAX - static_cast<size_t>(buffer_offset)) return CU_FILE_INTERNAL_ERROR;
  if (size > SSIZE_MAX) return CU_FILE_INVALID_MAPPING_RANGE;
  return file_offset > SSIZE_MAX - static_cast<ssize_t>(size) ? CU_FILE_INVALID_VALUE : 0;
}

// While the driver is closed no handle is valid, nor is a parent's handle in a forked child. By 1.15's answers there
// were none at all before the first opening; by 1.20's the call opens the driver all the same.
ssize_t refuse_closed(off_t file_offset) {
  if (!driver().follows_1_20()) return fail(driver().was_open() ? CU_FILE_HANDLE_NOT_REGISTERED : EINVAL);
  const auto open = [] { return driver().open_and_use().status(); };
  const auto no_memory = [] { return core::failure(core::Code::out_of_memory, "open the driver"); };
  const core::Status opened = core::unless_short_of_memory(open, no_memory);
  if (!opened.ok()) return fail(core::cufile_errno(opened));
  return fail(file_offset < 0 ? CU_FILE_INVALID_VALUE : CU_FILE_HANDLE_NOT_REGISTERED);
}

core::Result<std::uint64_t> register_userspace(core::Session& session, const CUfileDescr_t& descr) {
  core::Result<std::unique_ptr<core::UserspaceFile>> file = core::userspace_file(descr.handle.handle, descr.fs_ops);
  return file.ok() ? session.register_file(std::move(*file)) : file.status();
}

ssize_t transfer_or_throw(core::RawRequest& request, bool is_piece) {
  const CufileDriver::Use use(driver());
  const auto refuse_transfer = [&](int error_number) {
    if (use && !is_piece)
      core::count(use.session(), request.op == core::Op::read ? CufileOperation::read : CufileOperation::write, false);
    return fail(error_number);
  };
  if (request.file == 0 || request.base == nullptr) return refuse_transfer(EINVAL);
  // The caller of a piece is inside the gate, where nothing may open the driver: another thread is closing it.
  if (!use) return is_piece ? fail(CU_FILE_HANDLE_NOT_REGISTERED) : refuse_closed(request.file_offset);
  if (const int error = range_error(request.size, request.file_offset, request.buffer_offset); error != 0) {
    const bool comes_first = request.file_offset < 0 && driver().follows_1_20();
    return refuse_transfer(comes_first || use->is_file(request.file) ? error : CU_FILE_HANDLE_NOT_REGISTERED);
  }
  if (request.size == 0) request.buffer_offset = 0;
  const std::uint64_t began = core::stats_clock(use.session());
  const core::Outcome outcome = core::transfer(use.session(), request);
  core::count_transfer(use.session(), request, outcome, began, is_piece);
  if (!outcome.status.ok()) return fail(core::cufile_errno(outcome.status));
  return static_cast<ssize_t>(outcome.report.bytes);
}

}  // namespace

// The driver itself is made by the first call, whichever that is, and needs memory.
ssize_t core::entry_points::transfer(RawRequest&& request, bool is_piece) {
  return boundary([&] { return transfer_or_throw(request, is_piece); }, [] { return fail(ENOMEM); });
}

extern "C" {

// ---- Driver --------------------------------------------------------------------------------------------------------

// Programs make this call before their streams are busy, so it warms the streams up.
CUfileError_t cuFileDriverOpen(void) {
  return core::cufile_call([&] {
    const core::Status opened = driver().open();
    if (!opened.ok()) return core::cufile_error(opened);
    const CufileDriver::Use use(driver());
    if (use) use.frontends().streams().prepare();
    return ok();
  });
}

CUfileError_t cuFileDriverClose_v2(void) {
  return core::cufile_call([] { return driver().close() ? ok() : refuse(CU_FILE_DRIVER_NOT_INITIALIZED); });
}

// The symbol for programs built before cuFile 1.4.
#undef cuFileDriverClose
CUfileError_t cuFileDriverClose(void) { return cuFileDriverClose_v2(); }

long cuFileUseCount(void) {
  return core::boundary([] { return driver().use_count(); }, [] { return 0L; });
}

CUfileError_t cuFileGetVersion(int* version) {
  return core::cufile_call([&] {
    if (version == nullptr) return refuse(CU_FILE_INVALID_VALUE);
    *version = core::by_version(1150, 1200);
    return ok();
  });
}

// ---- Files and buffers ---------------------------------------------------------------------------------------------

CUfileError_t cuFileHandleRegister(CUfileHandle_t* fh, CUfileDescr_t* descr) {
  return core::cufile_call([&] {
    // Checked before the driver opens its own files, which may get this descriptor number.
    const bool by_number = descr != nullptr && descr->type == CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    const bool closed = by_number && ::fcntl(descr->handle.fd, F_GETFD) < 0;
    const core::Result<CufileDriver::Use> use = driver().open_and_use();
    if (!use.ok()) return core::cufile_error(use.status());
    if (fh == nullptr || descr == nullptr) return refuse(CU_FILE_INVALID_VALUE);
    const bool userspace = descr->type == CU_FILE_HANDLE_TYPE_USERSPACE_FS;
    if (!by_number && !userspace) return refuse(CU_FILE_IO_NOT_SUPPORTED);
    if (closed) {
      core::count(use->session(), CufileOperation::handle_register, false);
      return refuse(CU_FILE_INVALID_VALUE);
    }
    const core::Result<std::uint64_t> file =
        userspace ? register_userspace(use->session(), *descr) : use->session().register_file(descr->handle.fd);
    core::count(use->session(), CufileOperation::handle_register, file.ok());
    if (!file.ok()) return core::cufile_error(file.status());
    *fh = reinterpret_cast<CUfileHandle_t>(static_cast<std::uintptr_t>(*file));
    return ok();
  });
}

void cuFileHandleDeregister(CUfileHandle_t fh) {
  return core::boundary(
      [&] {
        const CufileDriver::Use use(driver());
        if (!use) return;
        const std::uint64_t file = file_of(fh);
        const core::Status status = use->deregister_file(file);
        core::count(use.session(), CufileOperation::handle_deregister, status.ok());
      },
      [] {});
}

CUfileError_t cuFileBufRegister(const void* bufPtr_base, size_t length, int) {
  return core::cufile_call([&]() -> CUfileError_t {
    const core::Result<CufileDriver::Use> use = driver().open_and_use();
    if (!use.ok()) return core::cufile_error(use.status());
    if (bufPtr_base != nullptr && length > 0 && !driver().is_on("properties.allow_system_memory") &&
        !use->session().devices().describe(bufPtr_base).needs_device()) {
      CufileStats::instance().count_buffer_register(use->session(), bufPtr_base, length, false);
      return {CU_FILE_CUDA_MEMORY_TYPE_INVALID, kCudaInvalidValue};
    }
    const core::Status status = use->session().register_buffer(bufPtr_base, length);
    CufileStats::instance().count_buffer_register(use->session(), bufPtr_base, length, status.ok());
    if (status.is(core::Code::already_registered)) return refuse(CU_FILE_MEMORY_ALREADY_REGISTERED);
    return core::cufile_error(status);
  });
}

CUfileError_t cuFileBufDeregister(const void* bufPtr_base) {
  return core::cufile_call([&] {
    const CufileDriver::Use use(driver());
    if (!use) return refuse(CU_FILE_DRIVER_CLOSING);
    const core::Status status = use->deregister_buffer(bufPtr_base);
    CufileStats::instance().count_buffer_deregister(use.session(), bufPtr_base, status.ok());
    if (status.is(core::Code::not_registered)) return refuse(CU_FILE_MEMORY_NOT_REGISTERED);
    return core::cufile_error(status);
  });
}

// ---- Transfers -----------------------------------------------------------------------------------------------------

ssize_t cuFileRead(CUfileHandle_t fh, void* bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset) {
  return core::entry_points::transfer({core::Op::read, file_of(fh), bufPtr_base, size, file_offset, bufPtr_offset});
}

ssize_t cuFileWrite(CUfileHandle_t fh, const void* bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset) {
  return core::entry_points::transfer({core::Op::write, file_of(fh), bufPtr_base, size, file_offset, bufPtr_offset});
}

}  // extern "C"
