// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/measured_drives.h"

#include "model/pcie/test_fixture.h"

namespace penstock::model {
namespace {

// A result of `compare`: a drive of 5 GB/s with a latency of 90 us.
GroupComparison measured(const char* operation, bool is_direct, double ceiling) {
  Measurement one;
  one.operation = operation;
  one.is_direct = is_direct;
  return {operation, {90e-6, 50e9, 1e-6, ceiling}, {{one, 1, false}}};
}

TEST(MeasuredDrives, AStreamReachesWhatBenchReachedOnOneDrive) {
  Machine machine = plain_machine(2, 1, 12 * kGiga);
  const std::vector<GroupComparison> groups = {measured("randread", true, 5 * kGiga),
                                               measured("read", false, 30 * kGiga)};

  set_measured_drives(machine, groups, {});

  const double deep = run(machine, {stream_of("nvme0", "gpu0")}).bytes_per_second;
  EXPECT_NEAR(deep / (5 * kGiga), 1, 0.01);  // The page cache's would be 30.
  Stream lonely = stream_of("nvme1", "gpu0", 4 * kMebibyte);
  lonely.io_bytes = 4096;
  lonely.depth = 1;
  const Outcome outcome = run(machine, {lonely});
  EXPECT_NEAR(outcome.streams[0].latency.mean_seconds() / 90e-6, 1, 0.02);
  EXPECT_EQ(machine.node(machine.find("nvme0")).write_rate, 12 * kGiga);  // No write was measured.
}

TEST(MeasuredDrives, ServersOfAFabricStayWhatTheyAre) {
  Machine fleet = builtin_machine("fleet");
  set_measured_drives(fleet, std::vector{measured("write", true, 5 * kGiga)}, {});
  EXPECT_EQ(fleet.node(fleet.find("storage0")).write_rate, 50 * kGiga);
}

TEST(MeasuredDrives, ResultsOfThePageCacheAloneAreRefused) {
  Machine machine = plain_machine(1, 1, 12 * kGiga);
  const std::vector<GroupComparison> groups = {measured("read", false, 30 * kGiga)};
  EXPECT_NE(refusal([&] { set_measured_drives(machine, groups, {}); }), "");
  EXPECT_EQ(machine.node(machine.find("nvme0")).read_rate, 12 * kGiga);
}

}  // namespace
}  // namespace penstock::model
