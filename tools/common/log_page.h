// SPDX-License-Identifier: Apache-2.0

// Explains logs, for `penstock explain` and `penstock-k8s explain-log`: causes and remedies, as text or JSON.
#pragma once

#include <string>
#include <vector>

namespace penstock::tools {

// True for a file of text that is a log: by its name, or by lines as cuFile's libraries write them.
bool is_log(const std::string& file);
// Prints what is known of the logs; "-" is standard input. `settings` is the cufile.json to hold them against, "" for
// the one beside each. Returns the exit code: 0 a cause was found, 1 none was.
// Throws a Failure for what cannot be read.
int explain_logs(const std::vector<std::string>& files, bool is_json, const std::string& settings = "");

}  // namespace penstock::tools
