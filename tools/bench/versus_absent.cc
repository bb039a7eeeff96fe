// SPDX-License-Identifier: Apache-2.0

// Stands in for `penstock bench --versus` in a build without benchmarks.
#include "tools/bench/versus.h"
#include "tools/common/failure.h"

namespace penstock::tools {

int run_bench_versus(const BenchSettings&) {
  throw Failure("--versus: this build cannot compare: it was configured with PENSTOCK_BENCH=OFF", kNotApplicable);
}

}  // namespace penstock::tools
