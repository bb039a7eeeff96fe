// SPDX-License-Identifier: Apache-2.0

// The summary for a person who reads no further: each cause with its remedy and the findings that follow from it, then
// storage that no direct path serves, then things that are no fault and could be better. Pure.
#pragma once

#include <string>
#include <vector>

#include "facts/finding.h"
#include "tools/common/page.h"

namespace penstock::tools::validate {

// The findings as one text: each sentence once, behind the things that it is true of.
std::string sayings_text(const std::vector<const facts::Finding*>& rows);
void add_summary(Page& page, const facts::Findings& rows);
// Adds what is unknown, is not in the summary, and can be found out.
void add_unknown(Page& page, const facts::Findings& rows);

}  // namespace penstock::tools::validate
