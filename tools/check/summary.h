// SPDX-License-Identifier: Apache-2.0

// What a person is to read first, and need read no further: each cause with its remedy and what follows from it, then
// storage that no direct path serves, then what is no fault and could be better. Pure.
#pragma once

#include "facts/finding.h"
#include "tools/common/page.h"

namespace penstock::tools::validate {

void add_summary(Page& page, const facts::Findings& rows);

}  // namespace penstock::tools::validate
