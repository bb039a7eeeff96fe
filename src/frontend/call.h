// SPDX-License-Identifier: Apache-2.0

// The plain way to ask: one request, which is over when the call returns.
#pragma once

#include "session/session.h"

namespace penstock::core {

Outcome transfer_uncounted(Session& session, const RawRequest& request);
Outcome transfer_counted(Session& session, const RawRequest& request);  // For a report, as the session's files are.

inline Outcome transfer(Session& session, const RawRequest& request) {
  return session.config().usage == nullptr ? transfer_uncounted(session, request) : transfer_counted(session, request);
}

}  // namespace penstock::core
