// SPDX-License-Identifier: Apache-2.0

// The options --root and --env.
#pragma once

#include <string>
#include <vector>

#include "facts/environment.h"
#include "topology/root.h"

namespace penstock::tools {

// Opens the directory of a captured machine, or with "" this machine. Throws a Failure with exit code 2 if the
// directory holds none.
core::Root open_machine_root(const std::string& directory);
// Parses words of the form NAME=VALUE, and sets them in this process, so that the sessions that it opens answer as
// those of a captured machine do. Throws a Failure with exit code 2 for any other word.
facts::Variables variables_of(const std::vector<std::string>& words);

}  // namespace penstock::tools
