// SPDX-License-Identifier: Apache-2.0

// `penstock topology` of a build without models: no plan.
#include "tools/check/read_plan.h"

namespace penstock::tools {

ReadPlan plan_reads(const std::vector<core::PciDevice>&, const std::vector<BusEnd>&) {
  ReadPlan plan;
  plan.not_made = "this build has no models, which tell rates: it was configured with PENSTOCK_MODEL=OFF";
  return plan;
}

}  // namespace penstock::tools
