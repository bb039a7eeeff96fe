// SPDX-License-Identifier: Apache-2.0

#include "frontend/admission.h"

#include <algorithm>

namespace penstock::core {

Status admit_and_route(Session& session, const RawRequest& request, File* file, Flight& flight) {
  if (const Status status = session.admit(request, file, flight.request); !status.ok()) return status;
  flight.memory_is_staging = request.staging != nullptr;
  flight.required = request.required;
  if (const Status status = session.engine().router().choose(flight); !status.ok()) return status;
  if (!flight.memory_is_staging) return success();
  // The pointer may have become invalid since the stream was given it.
  if (!flight.request.facts.needs_device()) return failure(Code::bad_pointer, transfer_step(request.op));
  flight.request.facts = {};
  flight.request.memory = request.staging;
  return success();
}

bool admit_by(Session& session, Path& path, const RawRequest& request, File* file, Flight& flight) {
  if (request.memory == nullptr || !session.admit(request, file, flight.request).ok()) return false;
  flight.path = &path;
  return flight.request.facts.device == request.memory->device;
}

bool admit_together(Session& session, RawRequest request, std::span<const MemoryPiece> pieces, File* file,
                    Flight& flight) {
  const std::uint64_t size = request.size;
  const auto has_bytes = [](const MemoryPiece& piece) { return piece.iov_len > 0; };
  const auto first = std::find_if(pieces.begin(), pieces.end(), has_bytes);
  if (first == pieces.end()) return false;
  request.base = first->iov_base;
  request.size = first->iov_len;
  if (!admit_and_route(session, request, file, flight).ok() || !traits_of(flight.report.path).gathers) return false;
  if (!session.is_all_of(flight.request.facts, request, pieces)) return false;
  flight.request.memory = RequestMemory(pieces, flight.request.facts.is_fresh);
  flight.request.size = size;
  return true;
}

Status RouteCache::admit_and_route(Session& session, const RawRequest& request, File* file, Flight& flight) {
  const auto offset = static_cast<std::uint64_t>(request.buffer_offset);
  const bool is_like = bytes_ > offset && request.size <= bytes_ - offset && request.file == file_ &&
                       request.base == base_ && request.op == op_ && request.required == required_;
  if (is_like && changes_ == session.buffer_changes()) {
    flight.request.facts = facts_;
    flight.request.prefer_cached = prefer_cached_;
    flight.memory_is_staging = false;
    flight.path = path_;
    flight.report = report_;
    return session.check(request, file, flight.request);
  }
  reset();
  flight = {};
  const std::uint64_t changes = session.buffer_changes();
  if (const Status status = core::admit_and_route(session, request, file, flight); !status.ok()) return status;
  const MemoryPiece buffer = session.buffer_at(request.base);
  if (buffer.iov_len == 0) return success();
  file_ = request.file;
  base_ = request.base;
  bytes_ = buffer.iov_len;
  changes_ = changes;
  op_ = request.op;
  required_ = request.required;
  prefer_cached_ = flight.request.prefer_cached;
  path_ = flight.path;
  facts_ = flight.request.facts;
  report_ = flight.report;
  return success();
}

}  // namespace penstock::core
