// SPDX-License-Identifier: Apache-2.0

// Reads gdsio's command line and job files into GdsioSettings. Both name the same settings, so one table serves both.
// Pure, except that it reads the file. Errors are thrown as a Failure with exit code 2, or 77 for things that Penstock
// does not do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/gdsio/settings.h"

namespace penstock::tools {

std::string gdsio_help();
// If wants_help is set, nothing else in the result counts.
GdsioSettings parse_gdsio(std::vector<std::string> words, bool& wants_help);
// Parses the text of a job file; its name is for errors.
GdsioSettings parse_gdsio_job(std::string_view text, const std::string& name);

}  // namespace penstock::tools
