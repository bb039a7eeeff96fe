// SPDX-License-Identifier: Apache-2.0

// The C API's requests in the order of CUDA streams.
#include <atomic>

#include "capi/call.h"
#include "frontend/streams.h"

namespace core = penstock::core;

namespace {

using core::Code;
using core::failure;
using core::GuardedSession;
using core::session_call;
using core::Status;

// `done` comes last, for who looks at it meanwhile.
void deliver(void* result, const core::RawRequest&, const core::Outcome& outcome) {
  auto* const given = static_cast<penstock_stream_result*>(result);
  core::write_struct(given,
                     core::to_public<penstock_stream_result>(outcome.status, outcome.report, given->struct_size));
  std::atomic_ref<std::int32_t>(given->done).store(1, std::memory_order_release);
}

penstock_status submit(core::Op op, void* stream, penstock_file* file, void* base, std::uint64_t size,
                       std::int64_t file_offset, std::int64_t buffer_offset, penstock_stream_result* result) {
  return session_call("use the stream", file, [&](const GuardedSession::Use& use) -> Status {
    if (const Status status = core::check_struct(result); !status.ok()) return status;
    if (base == nullptr) return failure(Code::invalid_argument, "use the stream");
    if (file->striped != nullptr)
      return failure(Code::unsupported, "use a striped object on a stream; use its members");
    core::write_struct(result, {});
    const core::StreamParameters parameters{.op = op,
                                            .file = file->id,
                                            .base = base,
                                            .size = &size,
                                            .file_offset = &file_offset,
                                            .buffer_offset = &buffer_offset,
                                            .result = result,
                                            .fixed = true};
    return use.frontends().streams().submit(stream, parameters, {.deliver = &deliver});
  });
}

}  // namespace

extern "C" {

penstock_status penstock_stream_read(void* stream, penstock_file* file, void* base, uint64_t size, int64_t file_offset,
                                     int64_t buffer_offset, penstock_stream_result* result) {
  return submit(core::Op::read, stream, file, base, size, file_offset, buffer_offset, result);
}

penstock_status penstock_stream_write(void* stream, penstock_file* file, const void* base, uint64_t size,
                                      int64_t file_offset, int64_t buffer_offset, penstock_stream_result* result) {
  return submit(core::Op::write, stream, file, const_cast<void*>(base), size, file_offset, buffer_offset, result);
}

}  // extern "C"
