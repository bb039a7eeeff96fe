// SPDX-License-Identifier: Apache-2.0

// Synchronous requests: the request is over when the call returns.
#pragma once

#include <optional>
#include <span>

#include "session/session.h"

namespace penstock::core {

Outcome transfer(Session& session, const RawRequest& request);

// One request for a range of a file, whose memory is in pieces. Returns nothing, and moves nothing, if the pieces have
// to be moved one by one.
std::optional<Outcome> transfer_together(Session& session, const RawRequest& request,
                                         std::span<const MemoryPiece> pieces);

// A read into the caller's staging memory if the page cache has the bytes. Returns nothing, and counts nothing, if the
// caller would have to wait for storage, or the bytes go another way.
std::optional<Outcome> transfer_if_cached(Session& session, const RawRequest& request);

}  // namespace penstock::core
