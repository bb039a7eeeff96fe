// SPDX-License-Identifier: Apache-2.0

// Stands in for `penstock bench --suite --versus` in a build without benchmarks.
#include "tools/common/failure.h"
#include "tools/suite/ways.h"

namespace penstock::tools {

std::unique_ptr<SuiteVariant> baseline_variant(const std::string&, bool, std::uint64_t, unsigned) {
  throw Failure("--versus: this build cannot compare: it was configured with PENSTOCK_BENCH=OFF", kNotApplicable);
}

}  // namespace penstock::tools
