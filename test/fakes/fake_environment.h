// SPDX-License-Identifier: Apache-2.0

// The environment that a test makes up, in place of the process's.
#pragma once

#include <map>
#include <string>

namespace penstock::core {

// Cleared by whoever uses it, before each test.
inline std::map<std::string, std::string> variables;

inline const char* test_environment(const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? nullptr : found->second.c_str();
}

}  // namespace penstock::core
