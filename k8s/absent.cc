// SPDX-License-Identifier: Apache-2.0

// `penstock k8s` of a build without yaml-cpp.
#include "k8s/k8s.h"
#include "tools/common/failure.h"

namespace penstock::tools {

void add_k8s(CommandLine& command) {
  command.takes_any_words();
  command.runs([]() -> int {
    throw Failure("this build reads no YAML: it was configured with PENSTOCK_K8S=OFF", kNotApplicable);
  });
}

}  // namespace penstock::tools
