#include "base/environment.h"

#include <cstdlib>

namespace penstock::core {

const char* process_environment(const char* name) { return ::secure_getenv(name); }

}  // namespace penstock::core
