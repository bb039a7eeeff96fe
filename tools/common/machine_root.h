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
// Parses words NAME=VALUE. Throws a Failure with exit code 2 for another word.
facts::Variables variables_of(const std::vector<std::string>& words);
// Sets the variables in this process, so that the sessions that it opens follow them.
void set_variables(const facts::Variables& variables);

}  // namespace penstock::tools
