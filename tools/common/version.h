// SPDX-License-Identifier: Apache-2.0

// The text of --version: a program's version, its sources, and how it was built. It says nothing of the machine on
// which it was built, except its compiler and libraries.
#pragma once

#include <string>

#include "tools/common/context.h"

namespace penstock::tools {

std::string version_text(const char* program);  // "penstock 0.1.0", and a line for each further fact.
Json version_json();

}  // namespace penstock::tools
