// SPDX-License-Identifier: Apache-2.0

// The options --root and --env.
#pragma once

#include <string>
#include <vector>

#include "facts/environment.h"
#include "topology/root.h"

namespace penstock::tools {

// A captured machine's directory, or "" for this machine. Throws a Failure with exit code 2 where it is none.
core::Root open_machine_root(const std::string& directory);
// Parses words NAME=VALUE, and sets them in this process, so that the sessions it opens say what they do of a captured
// machine. Throws a Failure with exit code 2 for another word.
facts::Variables variables_of(const std::vector<std::string>& words);

}  // namespace penstock::tools
