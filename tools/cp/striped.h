// SPDX-License-Identifier: Apache-2.0

// Copies to and from striped objects: one object in a file on each of several drives.
#pragma once

#include <string>

#include "tools/common/context.h"
#include "tools/cp/settings.h"

namespace penstock::tools {

// Source, destination or both are striped. After a failure the destination is what it was.
CpOutcome copy_striped(const CpSettings& settings, const std::string& destination, Session& session);

}  // namespace penstock::tools
