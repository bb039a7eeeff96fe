// SPDX-License-Identifier: Apache-2.0

// `penstock model` of a build without models.
#include "tools/common/failure.h"
#include "tools/model/model.h"

namespace penstock::tools {

void add_model(CommandLine& command) {
  command.takes_any_words();
  command.runs([]() -> int {
    throw Failure("this build has no models: it was configured with PENSTOCK_MODEL=OFF", kNotApplicable);
  });
}

}  // namespace penstock::tools
