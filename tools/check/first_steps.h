// SPDX-License-Identifier: Apache-2.0

// For each file system that data lies on, what stands between it and a direct path, what matters most first: the first
// words of `penstock check`. They are the outlooks of facts/, of which `check --all` tells each need. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "facts/examination.h"
#include "tools/common/page.h"

namespace penstock::tools {

// Returns the remedies that it has told; nothing, and tells nothing, of a machine without device memory or storage.
std::optional<std::set<std::string>> add_first_steps(Page& page, const facts::Examination& examined);

}  // namespace penstock::tools
