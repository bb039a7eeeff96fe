// SPDX-License-Identifier: Apache-2.0

// The summary for a person who reads no further: each cause with its remedy and the findings that follow from it, then
// storage that no direct path serves, then things that are no fault and could be better. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "facts/finding.h"
#include "tools/common/page.h"

namespace penstock::tools::validate {

// The findings as one text: each sentence once, behind the things that it is true of.
std::string sayings_text(const std::vector<const facts::Finding*>& rows);
// Names of things, of which a long list tells the first.
std::string list_text(const std::vector<std::string>& names);
void add_summary(Page& page, const facts::Findings& rows);
// The same behind first_steps.h, which has told of storage and paths, and these remedies.
void add_rest(Page& page, const facts::Findings& rows, const std::set<std::string>& told);
// Adds what is unknown, is not in the summary, and can be found out.
void add_unknown(Page& page, const facts::Findings& rows);

}  // namespace penstock::tools::validate
