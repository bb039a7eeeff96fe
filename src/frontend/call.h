// SPDX-License-Identifier: Apache-2.0

// The plain way to ask: one request, which is over when the call returns.
#pragma once

#include "session/session.h"

namespace penstock::core {

Outcome transfer(Session& session, const RawRequest& request);

}  // namespace penstock::core
