// SPDX-License-Identifier: Apache-2.0

// Prints findings as rows, for people and for programs. Pure.
//
// The JSON document, whose keys and codes are stable (new ones may come):
//   schema      1
//   version     of Penstock
//   root        the captured machine's directory, or null for this machine
//   layers[]    the layers that were judged: 1 drivers and peer access, 2 fabric, 3 one transfer for each folder
//   rows[]      layer, code, subject, where (what a folder lies on, which folders a drive holds; ""), state ("pass",
//               "warn", "fail", "unknown", "not_applicable"), direct (null, or of storage how its bytes go: "now",
//               "once_set", "unknown", "no" through host memory, "nowhere"), sentence, remedy, follows_from (null, or
//               code and subject of the failed row that explains this one), source (null where this machine itself
//               tells), details (null, or of a transfer: write, read {path, reason, refused_path, sentence, bytes,
//               direct_path_bytes, direct_io_bytes, page_cache_bytes})
//   counts      {pass, fail, unknown, not_applicable}; unknown counts what warns, too
//   causes      how many of the failed rows follow from no other
//   not_tried   what of this command was never run on real hardware
//   exit_code   as the command ends with
#pragma once

#include <string>
#include <vector>

#include "facts/finding.h"
#include "tools/check/transfer.h"
#include "tools/common/context.h"
#include "tools/common/page.h"
#include "tools/common/terminal.h"

namespace penstock::tools::validate {

// A state as a word: "pass", "n/a".
const char* word_of(facts::State state);
// "nothing failed: 12 passed, 0 failed, 1 unknown, 3 not applicable"; begins with the verdict, if there is one, of a
// command whose exit code does not follow from the rows.
std::string result_text(const facts::Findings& rows, const std::string& verdict = "");
void add_layer(Page& page, const facts::Findings& rows, facts::Layer layer);
// Adds the findings layer by layer, and then the result.
void add_layers(Page& page, const facts::Findings& rows, const std::vector<facts::Layer>& layers,
                const std::string& verdict = "");

Text report_text(const facts::Findings& rows, const std::vector<facts::Layer>& layers, const std::string& root);
Json report_json(const facts::Findings& rows, const Details& details, const std::vector<facts::Layer>& layers,
                 const std::string& root);

}  // namespace penstock::tools::validate
