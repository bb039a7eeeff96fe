// SPDX-License-Identifier: Apache-2.0

// The obstacles between device memory and file systems, for people and for programs. Pure.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "facts/peer_pairs.h"
#include "tools/common/context.h"
#include "tools/common/page.h"

namespace penstock::tools {

// The remedy of each code once, where it is met first.
void print_findings(Page& page, const core::Findings& findings, const char* indent, std::set<std::string>& told);
void print_pairs(Page& page, const facts::Machine& machine, std::span<const facts::PeerPair> pairs);

// {code, effect, certainty, subject, sentence, remedy} of each.
Json findings_json(const core::Findings& findings);
Json pairs_json(const std::vector<facts::PeerPair>& pairs);

}  // namespace penstock::tools
