// SPDX-License-Identifier: Apache-2.0

// Prints the findings of `penstock-k8s lint`: lines for people, documents for programs. Pure.
//
// The JSON document, whose keys are stable (new ones may come):
//   schema            1
//   version           of Penstock
//   gpu_operator, network_operator    the releases by whose tables it judged
//   files             how many were read
//   findings[]        rule, severity ("error", "warning", "note"), file, line, column, object ("" for the file),
//                     sentence, remedy, source
//   looked_at         objects, pods (and templates of pods), gpu_pods (those that ask for a GPU)
//   not_known[]       what these files do not show, and how to find it out
//   errors, warnings, notes    how many of each
//   passed_over       findings that were to be ignored
//   dropped           findings beyond the number that is kept
#pragma once

#include <string>
#include <vector>

#include "k8s/findings.h"
#include "tools/common/context.h"
#include "tools/common/terminal.h"

namespace penstock::tools::k8s {

struct LintReport {
  const Findings& findings;
  const Cluster& cluster;
  std::string gpu_operator;
  std::string network_operator;
};

Text lint_text(const LintReport& report);
Json lint_json(const LintReport& report);
Json lint_sarif(const LintReport& report);  // SARIF 2.1.0

Text rules_text();
Text rules_markdown();  // For docs/reference/k8s-rules.md.
Json rules_json();

}  // namespace penstock::tools::k8s
