// SPDX-License-Identifier: Apache-2.0

// The plain way to ask: one request, which is over when the call returns.
#pragma once

#include <optional>
#include <span>

#include "session/session.h"

namespace penstock::core {

Outcome transfer_uncounted(Session& session, const RawRequest& request);
Outcome transfer_counted(Session& session, const RawRequest& request);  // For a report, as the session's files are.

// One request for a range of a file whose memory is in pieces. Nothing, and nothing was moved, where they have to be
// moved one by one.
std::optional<Outcome> transfer_together(Session& session, const RawRequest& request,
                                         std::span<const MemoryPiece> pieces);

// A read into staging memory of the caller's, where the page cache has what it asks for. Nothing, and nothing was
// counted, where its caller would have to wait for storage, or bytes go another way.
std::optional<Outcome> transfer_cached(Session& session, const RawRequest& request);

// A path that may lend a stream the bytes of reads between a file and a memory, and the report of such reads.
struct Lender {
  Path* path = nullptr;  // The session's; null: nobody.
  Report report;
};
// May ask the device. The request says nothing of staging memory, and what its memory is.
Lender find_lender(Session& session, const RawRequest& request);
// A read's first bytes that a stream copies by itself (PathHooks::lend); none if it cannot. Asks no device, and leaves
// no trace.
std::span<const std::byte> lend(Session& session, const Lender& lender, const RawRequest& request);
// The read will move, that way or another: its lender takes note of it (PathHooks::commit). Once for each.
void commit_on_stream(Session& session, const Lender& lender, const RawRequest& request);
// Counts a request that was lent as a whole, and returns its outcome. Commits it.
Outcome count_lent(Session& session, const Lender& lender, const RawRequest& request);

inline Outcome transfer(Session& session, const RawRequest& request) {
  return session.config().usage == nullptr ? transfer_uncounted(session, request) : transfer_counted(session, request);
}

}  // namespace penstock::core
