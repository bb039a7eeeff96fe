// SPDX-License-Identifier: Apache-2.0

// The obstacles between device memory and file systems, for people and for programs. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "facts/examination.h"
#include "tools/common/context.h"
#include "tools/common/page.h"

namespace penstock::tools {

// Prints findings; each code's remedy is printed once, where it first occurs.
void print_findings(Page& page, const core::Findings& findings, const char* indent, std::set<std::string>& told);
void print_pairs(Page& page, const facts::Examination& examined);

// The JSON of each finding: {code, effect, certainty, subject, sentence, remedy}.
Json findings_json(const core::Findings& findings);
Json pairs_json(const facts::Examination& examined);

}  // namespace penstock::tools
