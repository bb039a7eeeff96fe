// SPDX-License-Identifier: Apache-2.0

// Shared by the C API's entry points: how a call fails, the public form of values, and the place where a call ends
// (boundary.h).
#pragma once

#include <string_view>
#include <utility>

#include "capi/boundary.h"
#include "capi/handles.h"
#include "capi/structs.h"
#include "core/report.h"
#include "frontend/queued_request.h"
#include "frontend/striped.h"
#include "frontend/vectored.h"

namespace penstock::core {

inline penstock_status to_public(const Status& status) {
  return {static_cast<std::int16_t>(status.domain), status.driver, status.code, status.step};
}
penstock_report to_public(const Report& report);

// Fills a structure whose last member is the report: the report gets the bytes that remain of the structure's size in
// the caller's version.
template <typename Ended>
Ended to_public(const Status& status, const Report& report, std::uint32_t struct_size) {
  Ended ended{};
  ended.status = to_public(status);
  ended.report = to_public(report);
  ended.report.struct_size = struct_size - static_cast<std::uint32_t>(offsetof(Ended, report));
  return ended;
}

// Runs `work`, which returns a Status, as an exported call that returns a status.
template <typename Work>
penstock_status status_call(const char* step, Work&& work) {
  const auto no_room = [&] { return failure(Code::out_of_memory, step); };
  return to_public(boundary([&]() -> Status { return work(); }, no_room));
}

// The same, with the session of a handle: work(session).
template <typename Handle, typename Work>
penstock_status session_call(const char* step, Handle* handle, Work&& work) {
  return status_call(step, [&]() -> Status {
    if (handle == nullptr) return failure(Code::invalid_argument, step);
    const GuardedSession::Use use(*handle->guarded);
    return use ? work(use) : failure(Code::closed, step);
  });
}

// Later versions may give other numbers a meaning.
inline Result<Op> op_of(std::int32_t op) {
  if (op == PENSTOCK_READ) return Op::read;
  if (op == PENSTOCK_WRITE) return Op::write;
  return failure(Code::invalid_argument, "use an op that is neither PENSTOCK_READ nor PENSTOCK_WRITE");
}

// Copies as much of a text as fits, with a zero behind. Returns the whole length.
std::size_t copy_text(std::string_view source, char* text, std::size_t capacity);

// Checks the request, and makes an empty one into it: a copy of each would take longer than its checks.
Status make_queued(const penstock_request& request, QueuedRequest& made);
// For a dry run: only operation, file, memory and sizes. A striped object is refused: dry runs take its members.
Result<RawRequest> raw_request(const penstock_request& request);

}  // namespace penstock::core
