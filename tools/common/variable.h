// SPDX-License-Identifier: Apache-2.0

// Reads a variable of the environment that is neither the library's nor cuFile's: TERM, NO_COLOR, LANG.
#pragma once

#include <string>

#include "base/environment.h"

namespace penstock::tools {

// The value of a variable, or "".
inline std::string variable(const char* name) {
  const char* const value = core::process_environment(name);
  return value == nullptr ? "" : value;
}

}  // namespace penstock::tools
