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
  Severity severity;    // Severity of most findings; a finding may have a lower one.
  const char* meaning;  // The fault, without names, for the manual and for SARIF.
  const char* remedy;   // The remedy of findings without their own.
  const char* source;   // Where the rule comes from.
};

std::span<const Rule> rules();
const Rule* find_rule(std::string_view id);       // Null if there is none.
std::string_view rule_near(std::string_view id);  // The rule that a misspelt id probably means; "" for none.

}  // namespace penstock::tools::k8s
