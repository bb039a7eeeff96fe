// SPDX-License-Identifier: Apache-2.0

// --version of a program: its version, its sources, and how it was built. Nothing of the machine that it was built on,
// but its compiler and its libraries.
#pragma once

#include <string>

#include "tools/common/context.h"

namespace penstock::tools {

std::string version_text(const char* program);  // "penstock 0.1.0", and a line for each fact.
Json version_json();

}  // namespace penstock::tools
