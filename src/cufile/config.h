// SPDX-License-Identifier: Apache-2.0

// Turns cuFile's configuration into a session's, and a session's into cuFile's own structures. Settings do not depend
// on sessions, nor sessions on cuFile: only this file uses both.
#pragma once

#include "cufile.h"
#include "session/config.h"
#include "settings/settings.h"

namespace penstock::core {

// A setting of Penstock's overrides the cuFile key with the same effect; a path is used only if both allow it.
Result<Config> config_from(const Settings& settings);

// True if streams may be used at all.
bool allows_streams(const Settings& settings);

// True if libcufile gives the answers of cuFile 1.20 (penstock.cufile_version), false if those of 1.15.
bool follows_1_20(const Settings& settings);

CUfileDrvProps_t properties_from(const Settings& settings);

}  // namespace penstock::core
