// SPDX-License-Identifier: Apache-2.0

// Runs with recorded results of every event: any change of behaviour fails here. If it is intended, take the new
// numbers from the test's output.
#include <ostream>

#include "model/pcie/test_fixture.h"

namespace penstock::model {
namespace {

struct Golden {
  const char* machine;
  Pattern pattern;
  PathKind path;
  std::uint64_t events;
  std::uint64_t hash;
};

void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.machine; }

class GoldenRun : public testing::TestWithParam<Golden> {};

TEST_P(GoldenRun, HasTheEventsItAlwaysHad) {
  const Golden& golden = GetParam();
  const Machine machine = builtin_machine(golden.machine);
  Workload workload;
  workload.seed = 42;
  workload.streams = streams_of(machine, golden.pattern);
  for (Stream& stream : workload.streams) {
    stream.total_bytes = 32 * kMebibyte;
    stream.path = golden.path;
  }

  const Outcome outcome = run(machine, workload);

  EXPECT_EQ(outcome.events, golden.events);
  EXPECT_EQ(outcome.event_hash, golden.hash) << outcome.seconds << " s";
}

INSTANTIATE_TEST_SUITE_P(
    Machines, GoldenRun,
    testing::Values(Golden{"two-switch-server", Pattern::own_drive, PathKind::direct, 66112, 1013897982694919177U},
                    Golden{"dgx-h100", Pattern::striped, PathKind::direct, 82496, 10453056081694068209U},
                    Golden{"dgx-2", Pattern::own_drive, PathKind::through_host, 361600, 11798987127008924824U},
                    Golden{"hgx-h200", Pattern::host, PathKind::direct, 33344, 7932441450784475212U}));

}  // namespace
}  // namespace penstock::model
