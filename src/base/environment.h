// SPDX-License-Identifier: Apache-2.0

// The process's environment variables: the only place that reads them. Code that needs one takes an Environment, so
// that tests can replace it.
#pragma once

namespace penstock::core {

// Null if the variable is not set.
using Environment = const char* (*)(const char* name);
const char* process_environment(const char* name);
// All variables, as "NAME=VALUE" with a null at the end; for callers that look for misspelt names.
const char* const* process_variables();

}  // namespace penstock::core
