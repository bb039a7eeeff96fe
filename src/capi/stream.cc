// SPDX-License-Identifier: Apache-2.0

// The C API's requests in the order of CUDA streams.
#include <atomic>
#include <utility>

#include "capi/conversions.h"
#include "frontend/streams.h"

namespace core = penstock::core;

namespace {

using core::Code;
using core::failure;
using core::GuardedSession;
using core::session_call;
using core::Status;

// `done` is written last, since the program may poll it.
void deliver(void* result, const core::RawRequest&, const core::Outcome& outcome) {
  auto* const given = static_cast<penstock_stream_result*>(result);
  core::write_struct(given,
                     core::to_public<penstock_stream_result>(outcome.status, outcome.report, given->struct_size));
  std::atomic_ref<std::int32_t>(given->done).store(1, std::memory_order_release);
}

// Requests on streams support no deadline, no pieces and no required path.
Status check_plain(const core::QueuedRequest& request) {
  const char* const what = request.striped != nullptr              ? "use a striped object on a stream; use its members"
                           : !request.pieces.empty()               ? "use pieces of memory on a stream"
                           : request.deadline != core::kNoDeadline ? "give a request on a stream a deadline"
                           : request.request.required.has_value()  ? "require a path of a request on a stream"
                                                                   : nullptr;
  return what == nullptr ? core::success() : failure(Code::unsupported, what);
}

Status submit(const GuardedSession::Use& use, penstock_request& said, penstock_stream_result* result) {
  if (const Status status = core::check_struct(result); !status.ok()) return status;
  void* const stream = std::exchange(said.stream, nullptr);
  core::QueuedRequest made;
  if (const Status status = core::make_queued(said, made); !status.ok()) return status;
  if (const Status status = check_plain(made); !status.ok()) return status;
  if (said.base == nullptr) return failure(Code::invalid_argument, "use the stream");
  core::write_struct(result, {});
  const core::StreamParameters parameters{.op = made.request.op,
                                          .file = made.request.file,
                                          .base = said.base,
                                          .size = &said.size,
                                          .file_offset = &said.file_offset,
                                          .buffer_offset = &said.buffer_offset,
                                          .result = result,
                                          .fixed = true};
  return use.frontends().streams().submit(stream, parameters, {.deliver = &deliver});
}

}  // namespace

extern "C" {

penstock_status penstock_stream_submit(const penstock_request* request, penstock_stream_result* result) {
  penstock_request said{};
  if (const Status status = core::read_struct(request, said); !status.ok()) return core::to_public(status);
  return session_call("use the stream", said.file,
                      [&](const GuardedSession::Use& use) { return submit(use, said, result); });
}

}  // extern "C"
