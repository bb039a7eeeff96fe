// SPDX-License-Identifier: Apache-2.0

#include "tools/check/deepspeed_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/common/page.h"

namespace penstock::tools {
namespace {

std::string head_of(const DeepSpeedFinding& finding) {
  std::string head = finding.key;
  if (!finding.value.empty()) head += " = " + finding.value;
  if (finding.line > 0) head += fmt::format(" (line {})", finding.line);
  return head;
}

}  // namespace

std::size_t count(const std::vector<DeepSpeedFinding>& findings, Severity severity) {
  return static_cast<std::size_t>(std::count_if(findings.begin(), findings.end(),
                                                [&](const DeepSpeedFinding& one) { return one.severity == severity; }));
}

std::string deepspeed_text(const std::string& file, const std::vector<DeepSpeedFinding>& findings) {
  Page page;
  page.wrap("", fmt::format("{}: what of it has to do with files, as DeepSpeed {} takes it", file, kDeepSpeedVersion));
  for (const DeepSpeedFinding& finding : findings) {
    page.section(fmt::format("{}: {}", severity_name(finding.severity), printable(head_of(finding))));
    if (!finding.expected.empty()) page.wrap("  expected: ", finding.expected);
    page.wrap("  cause:    ", finding.cause);
    if (!finding.remedy.empty()) page.wrap("  remedy:   ", finding.remedy);
  }
  page.section(severity_summary(count(findings, Severity::error), count(findings, Severity::warning),
                                count(findings, Severity::note)));
  return page.text();
}

}  // namespace penstock::tools
