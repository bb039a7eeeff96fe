// SPDX-License-Identifier: Apache-2.0

#include "capi/conversions.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace penstock::core {

penstock_report to_public(const Report& report) {
  penstock_report out{};
  out.bytes = report.bytes;
  out.direct_bytes = report.direct_bytes;
  out.cached_bytes = traits_of(report.path).pretends ? 0 : report.bytes - report.direct_bytes;
  out.bounced_bytes = report.path == PathId::bounce ? 0 : report.bounced_bytes;
  out.path = static_cast<std::int32_t>(report.path);
  out.reason = static_cast<std::int32_t>(report.reason);
  out.refused_path = report.refused;
  out.path_reason = static_cast<std::int32_t>(report.path_reason);
  out.bounced_reason = static_cast<std::int32_t>(report.bounced_reason);
  return out;
}

std::size_t copy_text(std::string_view source, char* text, std::size_t capacity) {
  if (text == nullptr || capacity == 0) return 0;
  const std::size_t length = std::min(source.size(), capacity - 1);
  std::memcpy(text, source.data(), length);
  text[length] = '\0';
  return length;
}

namespace {

TimePoint deadline_of(const penstock_request& request) {
  if (request.deadline_ns == 0 || request.deadline_ns > INT64_MAX) return kNoDeadline;
  return TimePoint(std::chrono::nanoseconds(request.deadline_ns));
}

Status set_required(const penstock_request& request, RawRequest& raw) {
  constexpr std::uint32_t kKnown = PENSTOCK_REQUEST_REQUIRES_PATH;
  if ((request.flags & ~kKnown) != 0) return failure(Code::unsupported, "use all flags of the request");
  const bool is_path = request.required_path >= 0 && request.required_path < static_cast<int>(kPathCount);
  if (request.flags == 0 || !is_path) return failure(Code::invalid_argument, "find the path that the request requires");
  raw.required = static_cast<PathId>(request.required_path);
  return success();
}

Status make_raw(const penstock_request& request, RawRequest& raw) {
  const Result<Op> op = op_of(request.op);
  if (!op.ok()) return op.status();
  if (request.file == nullptr) return failure(Code::invalid_argument, "find the file of the request");
  raw.op = *op;
  raw.file = request.file->id;
  raw.base = request.base;
  raw.size = request.size;
  raw.file_offset = request.file_offset;
  raw.buffer_offset = request.buffer_offset;
  return request.flags == 0 && request.required_path == 0 ? success() : set_required(request, raw);
}

}  // namespace

Result<RawRequest> raw_request(const penstock_request& request) {
  if (request.file != nullptr && request.file->striped != nullptr) {
    return failure(Code::unsupported, "ask about a striped object as a whole; ask about its members, each a file");
  }
  RawRequest raw;
  if (const Status status = make_raw(request, raw); !status.ok()) return status;
  return raw;
}

Status make_queued(const penstock_request& request, QueuedRequest& made) {
  if (const Status status = make_raw(request, made.request); !status.ok()) return status;
  const bool names_both = request.base != nullptr || request.size != 0 || request.buffer_offset != 0;
  if (request.device != 0)
    return failure(Code::invalid_argument, "make a request that names a device, as only dry runs may");
  if (request.stream != nullptr)
    return failure(Code::unsupported, "keep the order of the request's stream; submit the request to that stream");
  if ((request.pieces == nullptr) != (request.piece_count == 0)) {
    return failure(Code::invalid_argument, "make a request whose pieces and piece_count disagree");
  }
  if (request.pieces != nullptr && names_both) {
    return failure(Code::invalid_argument, "make a request with pieces and also a base, size or buffer_offset");
  }
  made.pieces = {request.pieces, request.piece_count};
  if (request.file->striped != nullptr) made.striped = request.file->striped->set.get();
  made.cookie = request.cookie;
  made.deadline = deadline_of(request);
  return success();
}

}  // namespace penstock::core
