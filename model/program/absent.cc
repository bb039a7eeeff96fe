// SPDX-License-Identifier: Apache-2.0

// `penstock model` of a build without models.
#include "model/program/model.h"
#include "tools/common/failure.h"

namespace penstock::tools {

void add_model(CommandLine& command) {
  command.takes_any_words();
  command.runs([]() -> int {
    throw Failure("this build has no models: it was configured with PENSTOCK_MODEL=OFF", kNotApplicable);
  });
}

}  // namespace penstock::tools
