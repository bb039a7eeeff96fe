// SPDX-License-Identifier: Apache-2.0

#include "tools/check/deepspeed.h"

#include <fmt/format.h>

#include "tools/check/deepspeed_config.h"
#include "tools/check/deepspeed_place.h"
#include "tools/check/deepspeed_report.h"
#include "tools/common/files.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

std::vector<DeepSpeedFinding> findings_of(const DeepSpeedConfig& config) {
  DeepSpeedFindings findings(config);
  check_deepspeed_keys(config, findings);
  check_deepspeed_rules(config, findings);
  check_deepspeed_places(config, findings);
  return findings.worst_first();
}

int refuse(const std::string& file, const DeepSpeedDocument& document, bool json) {
  if (json) {
    DeepSpeedFinding fault{.severity = Severity::error, .code = "unreadable"};
    fault.line = document.line;
    fault.column = document.column;
    fault.cause = document.fault;
    print_json(deepspeed_json(file, {fault}));
    return kFailed;
  }
  std::string place = file;
  if (document.line > 0) place += fmt::format(":{}", document.line);
  if (document.column > 0) place += fmt::format(":{}", document.column);
  throw Failure(place + ": " + document.fault);
}

}  // namespace

int check_deepspeed(const std::string& file, bool json) {
  DeepSpeedDocument document = parse_deepspeed(read_bounded(file, kDeepSpeedBytesMax));
  if (!document.fault.empty()) return refuse(file, document, json);
  const std::vector<DeepSpeedFinding> findings = findings_of(DeepSpeedConfig(std::move(document)));
  if (json) print_json(deepspeed_json(file, findings));
  else print("{}", Text(deepspeed_text(file, findings)));
  return count(findings, Severity::error) == 0 ? kSuccess : kFailed;
}

}  // namespace penstock::tools
