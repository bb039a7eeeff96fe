// SPDX-License-Identifier: Apache-2.0

// The session behind cuFile's calls, for tests that only want to use it: null while the driver is closed. The handle
// holds until the next call.
#pragma once

#include "penstock/cufile_session.h"
#include "penstock/penstock.hpp"

namespace penstock {

inline penstock_session* cufile_session() {
  static SessionReference kept;
  penstock_session* session = nullptr;
  kept = SessionReference(penstock_cufile_session(&session).code == 0 ? session : nullptr);
  return session;
}

}  // namespace penstock
