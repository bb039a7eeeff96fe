// SPDX-License-Identifier: Apache-2.0

// gdsio's command line and job files, read into GdsioSettings. Both name the same settings, so one table serves them.
// Pure, but for the reading of the file. Whatever is wrong is thrown as a Failure with exit code 2, or 77 for what
// Penstock does not do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/gdsio/settings.h"

namespace penstock::tools {

std::string gdsio_help();
// wants_help: nothing else counts.
GdsioSettings parse_gdsio(std::vector<std::string> words, bool& wants_help);
// The text of a job file; its name is for errors.
GdsioSettings parse_gdsio_job(std::string_view text, const std::string& name);

}  // namespace penstock::tools
