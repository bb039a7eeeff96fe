// SPDX-License-Identifier: Apache-2.0

// What cuFile's configuration means for a session, and how it is told in cuFile's own structures. The settings know
// nothing of sessions, and a session nothing of cuFile: this is where they meet.
#pragma once

#include "base/environment.h"
#include "cufile.h"
#include "session/config.h"
#include "settings/settings.h"

namespace penstock::core {

// A PENSTOCK_ variable comes before the setting that asks for the same; paths are those that both allow.
Result<Config> config_from(const Settings& settings, Environment environment);

// Whether streams may be used at all.
bool allows_streams(const Settings& settings);

CUfileDrvProps_t properties_from(const Settings& settings);

}  // namespace penstock::core
