// SPDX-License-Identifier: Apache-2.0

// Replaces a file as a whole: whoever opens its name finds the old content or the new, never half of either.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock::core {

// Written beside it under a name that cannot be guessed, flushed, renamed, and the folder flushed.
Status publish_file(const std::string& name, std::string_view content);

}  // namespace penstock::core
