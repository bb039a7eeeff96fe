// SPDX-License-Identifier: Apache-2.0

// Turns cuFile's configuration into a session's, and a session's into cuFile's own structures. The settings know
// nothing of sessions, and a session nothing of cuFile: they meet here.
#pragma once

#include "cufile.h"
#include "session/config.h"
#include "settings/settings.h"

namespace penstock::core {

// One of Penstock's own settings goes before the key that asks for the same; paths are used only if both allow them.
Result<Config> config_from(const Settings& settings);

// True if streams may be used at all.
bool allows_streams(const Settings& settings);

CUfileDrvProps_t properties_from(const Settings& settings);

}  // namespace penstock::core
