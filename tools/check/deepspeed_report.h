// SPDX-License-Identifier: Apache-2.0

// The findings on a DeepSpeed configuration: a page for people, a document for programs. Pure.
//
// The JSON document, whose keys and codes are stable (new ones may come):
//   schema       1
//   version      of Penstock
//   deepspeed    the version whose keys are known
//   file         as named
//   findings[]   severity ("error", "warning", "note"), code, key (null for the file as a whole), line and column
//                (null where unknown), value (as text, or null), expected, cause, remedy (texts, maybe empty)
//   errors, warnings, notes    how many of each
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/check/deepspeed_config.h"
#include "tools/common/context.h"

namespace penstock::tools {

std::size_t count(const std::vector<DeepSpeedFinding>& findings, Severity severity);
std::string deepspeed_text(const std::string& file, const std::vector<DeepSpeedFinding>& findings);
Json deepspeed_json(const std::string& file, const std::vector<DeepSpeedFinding>& findings);

}  // namespace penstock::tools
