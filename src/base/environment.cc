// SPDX-License-Identifier: Apache-2.0

#include "base/environment.h"

#include <unistd.h>

#include <cstdlib>

namespace penstock::core {

const char* process_environment(const char* name) { return ::secure_getenv(name); }
const char* const* process_variables() { return environ; }

}  // namespace penstock::core
