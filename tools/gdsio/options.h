// SPDX-License-Identifier: Apache-2.0

// gdsio's command line and job files, read into GdsioSettings. Both name the same settings, so one table serves them.
// Pure, but for the reading of the file. Whatever is wrong is thrown as a Failure with exit code 2, or 77 for what
// Penstock does not do.
#pragma once

#include <string>
#include <string_view>

#include "tools/gdsio/settings.h"

namespace penstock::tools {

std::string gdsio_help();
// argv[0] is the command's name. wants_help: nothing else counts.
GdsioSettings parse_gdsio(int argc, char** argv, bool& wants_help);
// The text of a job file; its name is for errors.
GdsioSettings parse_gdsio_job(std::string_view text, const std::string& name);

}  // namespace penstock::tools
