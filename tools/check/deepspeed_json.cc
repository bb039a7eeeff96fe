// SPDX-License-Identifier: Apache-2.0

#include "penstock/penstock.h"
#include "tools/check/deepspeed_report.h"

namespace penstock::tools {
namespace {

Json finding_json(const DeepSpeedFinding& finding) {
  const auto known = [](int number) { return number > 0 ? Json(number) : Json(nullptr); };
  return {{"severity", severity_name(finding.severity)},
          {"code", finding.code},
          {"key", finding.key.empty() ? Json(nullptr) : Json(finding.key)},
          {"line", known(finding.line)},
          {"column", known(finding.column)},
          {"value", finding.value.empty() ? Json(nullptr) : Json(finding.value)},
          {"expected", finding.expected},
          {"cause", finding.cause},
          {"remedy", finding.remedy}};
}

}  // namespace

Json deepspeed_json(const std::string& file, const std::vector<DeepSpeedFinding>& findings) {
  Json list = Json::array();
  for (const DeepSpeedFinding& finding : findings) list.push_back(finding_json(finding));
  return {{"schema", 1},
          {"version", penstock_version()},
          {"deepspeed", kDeepSpeedVersion},
          {"file", file},
          {"findings", list},
          {"errors", count(findings, Severity::error)},
          {"warnings", count(findings, Severity::warning)},
          {"notes", count(findings, Severity::note)}};
}

}  // namespace penstock::tools
