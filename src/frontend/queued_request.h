// SPDX-License-Identifier: Apache-2.0

// A request of a caller who does not wait for it: an entry of a batch, or a request in a penstock_queue. Faces make it
// of their callers' own form, and a RequestQueue carries it out.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "core/memory.h"
#include "frontend/job.h"
#include "session/session.h"

namespace penstock::core {

struct Striped;

struct QueuedRequest {
  RawRequest request;
  // If not empty, the request is a vectored one (vectored.h): it takes the room of one request, is one event, and has
  // begun when the first of its pieces has. submit() copies the pieces, for which it allocates memory; in the event
  // they are empty, and the request's size is their sum.
  std::span<const MemoryPiece> pieces;
  // If not null, the request is on this object, and its `file` is ignored. Only submit() looks at it.
  const Striped* striped = nullptr;
  std::uint64_t cookie = 0;
  // If the request has not begun by this time, it ends with timed_out, reported at about that time. If it has begun, it
  // goes on.
  TimePoint deadline = kNoDeadline;
  Status refused;           // If not ok, the request is not carried out and is reported as failed with this status.
  std::uint64_t began = 0;  // A time by the caller's clock, which comes back in the event.
};

}  // namespace penstock::core
