// SPDX-License-Identifier: Apache-2.0

// The rules of `penstock-k8s`: one table, whose names are stable. A finding names its rule; docs/reference/k8s-rules.md
// is made of the table. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tools/common/severity.h"

namespace penstock::tools::k8s {

struct Rule {
  const char* id;
  Severity severity;    // Of most findings; a case may weigh less.
  const char* meaning;  // What is wrong, without names: for the manual and for SARIF.
  const char* remedy;   // Where a finding has none of its own.
  const char* source;   // Where it comes from.
};

std::span<const Rule> rules();
const Rule* find_rule(std::string_view id);       // Null where there is none.
std::string_view rule_near(std::string_view id);  // The one that was probably meant; "" for none.

}  // namespace penstock::tools::k8s
