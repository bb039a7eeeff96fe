// SPDX-License-Identifier: Apache-2.0

// `penstock bench --suite` of a build without models.
#include "tools/common/failure.h"
#include "tools/suite/suite.h"

namespace penstock::tools {

void add_suite(CommandLine& command) {
  command.takes_any_words();
  command.runs([]() -> int {
    throw Failure("this build has no models: it was configured with PENSTOCK_MODEL=OFF", kNotApplicable);
  });
}

}  // namespace penstock::tools
