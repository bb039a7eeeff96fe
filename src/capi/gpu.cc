// SPDX-License-Identifier: Apache-2.0

// The C API's files that kernels read by themselves.
#include "penstock/gpu.h"

#include <cstring>

#include "capi/conversions.h"

namespace core = penstock::core;
namespace gpu = penstock::gpu;

namespace {

using core::Code;
using core::failure;
using core::GpuFile;
using core::GuardedSession;
using core::Result;
using core::session_call;
using core::Status;
using core::success;

static_assert(PENSTOCK_GPU_LAYOUT == gpu::kLayout);
static_assert(sizeof(penstock_gpu_value) == sizeof(gpu::Layout));

constexpr const char* kStep = "open the file for kernels";
constexpr std::uint32_t kThreadsMax = 64, kSlotsMax = 65536, kSlotBytesMin = 512, kSlotBytesMax = 1u << 20;

Result<GpuFile::Terms> terms_of(const penstock_gpu_options& said) {
  if (said.layout != PENSTOCK_GPU_LAYOUT) return failure(Code::unsupported, kStep);
  GpuFile::Terms terms{.device = said.device};
  if (said.threads != 0) terms.ring.threads = said.threads;
  if (said.slots != 0) terms.ring.slots = said.slots;
  if (said.slot_bytes != 0) terms.ring.slot_bytes = said.slot_bytes;
  if (said.timeout_ns != 0) terms.timeout_ns = said.timeout_ns;
  if (said.resident_bytes != 0) terms.resident_bytes_max = said.resident_bytes;
  if (said.ring_only != 0) terms.resident_bytes_max = 0;
  terms.may_be_stale = said.may_be_stale != 0;
  terms.cache_bytes = said.cache_bytes;
  const std::uint32_t bytes = terms.ring.slot_bytes;
  const bool is_sane = terms.ring.threads <= kThreadsMax && terms.ring.slots <= kSlotsMax && bytes >= kSlotBytesMin &&
                       bytes <= kSlotBytesMax && bytes % 16 == 0 && said.may_be_stale <= 1 && said.ring_only <= 1;
  if (!is_sane) return failure(Code::invalid_argument, kStep);
  return terms;
}

// work(GpuFile&), while the file is open.
template <typename Work>
penstock_status gpu_file_call(const char* step, penstock_gpu_file* file, Work&& work) {
  return session_call(step, file, [&](const GuardedSession::Use& use) -> Status {
    core::GpuFiles& files = use.frontends().gpu_files();
    GpuFile* const opened = files.pin(file->number);
    if (opened == nullptr) return failure(Code::not_registered, step);
    const Status status = work(*opened);
    files.unpin(file->number);
    return status;
  });
}

}  // namespace

extern "C" {

penstock_status penstock_gpu_open(penstock_session* session, penstock_file* file, const penstock_gpu_options* options,
                                  penstock_gpu_file** gpu_file) {
  if (gpu_file != nullptr) *gpu_file = nullptr;
  return session_call(kStep, session, [&](const GuardedSession::Use& use) -> Status {
    penstock_gpu_options said{};
    if (const Status status = core::read_struct(options, said); !status.ok()) return status;
    if (gpu_file == nullptr || file == nullptr || file->guarded != session->guarded) {
      return failure(Code::invalid_argument, kStep);
    }
    if (file->striped != nullptr) return failure(Code::unsupported, kStep);
    const Result<GpuFile::Terms> terms = terms_of(said);
    if (!terms.ok()) return terms.status();
    auto handle = std::make_unique<penstock_gpu_file>(penstock_gpu_file{session->guarded});
    const Result<std::uint64_t> number = use.frontends().gpu_files().open(file->id, *terms);
    if (!number.ok()) return number.status();
    handle->number = *number;
    *gpu_file = handle.release();
    return success();
  });
}

void penstock_gpu_close(penstock_gpu_file* gpu_file) {
  return core::boundary(
      [&] {
        if (gpu_file == nullptr) return;
        if (const GuardedSession::Use use(*gpu_file->guarded); use) use.frontends().gpu_files().close(gpu_file->number);
        delete gpu_file;
      },
      [] {});
}

penstock_status penstock_gpu_get_value(penstock_gpu_file* gpu_file, penstock_gpu_value* value) {
  return gpu_file_call("make the file's value for kernels", gpu_file, [&](GpuFile& opened) -> Status {
    if (const Status status = core::check_struct(value); !status.ok()) return status;
    penstock_gpu_value made{};
    std::memcpy(&made, &opened.value(), sizeof made);
    core::write_struct(value, made);
    return success();
  });
}

penstock_status penstock_gpu_get(penstock_gpu_file* gpu_file, penstock_gpu_info* info) {
  return gpu_file_call("look at the file for kernels", gpu_file, [&](GpuFile& opened) -> Status {
    if (const Status status = core::check_struct(info); !status.ok()) return status;
    const Result<GpuFile::Facts> found = opened.facts();
    if (!found.ok()) return found.status();
    const GpuFile::Facts& facts = *found;
    core::write_struct(info, {.struct_size = 0,
                              .reason = static_cast<std::int32_t>(facts.reason),
                              .detail = facts.detail,
                              .is_leased = facts.is_leased ? 1u : 0u,
                              .size = facts.size,
                              .resident_bytes = facts.resident_bytes,
                              .resident_reads = facts.counts.resident_reads,
                              .resident_read_bytes = facts.counts.resident_bytes,
                              .ring_reads = facts.counts.ring_reads,
                              .ring_read_bytes = facts.counts.ring_bytes,
                              .repeated_reads = facts.counts.repeated,
                              .failed_reads = facts.counts.failed,
                              .cache_bytes = facts.cache_bytes,
                              .cached_reads = facts.counts.cached_reads,
                              .cached_read_bytes = facts.counts.cached_bytes,
                              .fetched_blocks = facts.counts.fetched,
                              .ring_path = static_cast<std::int32_t>(facts.ring_path),
                              .reserved = 0});
    return success();
  });
}

}  // extern "C"
