// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/study.h"

#include <algorithm>

#include "model/pcie/flow_level.h"
#include "model/pcie/test_world.h"

namespace penstock::model {
namespace {

TEST(Study, MoreStreamsThanTheLinkCanCarryGiveNoMore) {
  const Machine machine = plain_machine(8, 1, 14 * kGiga);
  Workload workload;
  workload.streams = streams_of(machine, Pattern::all_to_one);

  const Sweep sweep = sweep_streams(machine, workload, {}, simulate, 128 * kMebibyte);

  ASSERT_EQ(sweep.points.size(), 8U);
  EXPECT_EQ(sweep.best_streams, 4U);  // Four times 14 GB/s are the link's 55.
  EXPECT_NEAR(sweep.points[0].bytes_per_second / (14 * kGiga), 1, 0.02);
}

TEST(Study, WithChangingStreamsTwoGiveMoreThanFourOfASwitch) {
  const Machine machine = builtin_machine("two-switch-server");
  Workload workload;
  workload.streams = streams_of(machine, Pattern::own_drive, 4);

  const Sweep sweep = sweep_streams(machine, workload, {}, simulate, 128 * kMebibyte);

  EXPECT_EQ(sweep.best_streams, 2U);
}

TEST(Study, AFleetIsSweptByFlowsAndItsStorageMattersMost) {
  const MachineMaker fleet = [](const PcieConstants& constants) { return builtin_machine("fleet", constants); };
  Workload workload;
  workload.streams = streams_of(fleet({}), Pattern::own_drive);

  const Sweep sweep = sweep_streams(fleet({}), workload, {}, simulate_flows);
  const Sensitivity crowded = contention_sensitivity(fleet, workload, {});

  EXPECT_EQ(sweep.points.size(), 16U);
  EXPECT_EQ(sweep.best_streams, 64U);  // One for each server.
  ASSERT_FALSE(crowded.influences.empty());
  EXPECT_EQ(crowded.influences[0].constant, "pcie.storage_server");
  EXPECT_NEAR(crowded.influences[0].elasticity, 1, 0.01);
}

TEST(Study, TheDriveMattersWhereTheDriveBindsAndTheChangeOfStreamsWhereThatDoes) {
  const MachineMaker server = [](const PcieConstants& constants) {
    return builtin_machine("two-switch-server", constants);
  };
  Workload workload;
  workload.streams = streams_of(server({}), Pattern::own_drive);

  const Sensitivity crowded = contention_sensitivity(server, workload, {});

  ASSERT_FALSE(crowded.influences.empty());
  const auto named = [&](const Sensitivity& sensitivity, std::string_view name) {
    return std::any_of(sensitivity.influences.begin(), sensitivity.influences.end(),
                       [&](const Influence& influence) { return influence.constant == name; });
  };
  EXPECT_TRUE(crowded.influences[0].constant == "pcie.stream_change" ||
              crowded.influences[0].constant == "pcie.interleave")
      << crowded.influences[0].constant;
  EXPECT_FALSE(named(crowded, "pcie.drive_gen4_read"));

  workload.streams.resize(1);
  for (Stream& stream : workload.streams) stream.depth = 1;
  const Sensitivity lonely = contention_sensitivity(server, workload, {});
  EXPECT_TRUE(named(lonely, "pcie.drive_access"));
  EXPECT_FALSE(named(lonely, "pcie.stream_change"));
}

TEST(PcieConstants, HaveAUnitASourceAndARangeThatHoldsTheirValue) {
  for (const ConstantFacts& facts : pcie_constant_facts()) {
    EXPECT_FALSE(facts.unit.empty()) << facts.name;
    EXPECT_FALSE(facts.source.empty()) << facts.name;
    EXPECT_LE(facts.low, facts.value) << facts.name;
    EXPECT_GE(facts.high, facts.value) << facts.name;
  }
  EXPECT_EQ(pcie_constant_rows().size() * sizeof(double), sizeof(PcieConstants));  // None is left out.
}

TEST(PcieConstants, AreSetByNameAndNothingElseIs) {
  PcieConstants constants;
  set_pcie_constant(constants, "pcie.stream_change", 50);
  EXPECT_EQ(constants.stream_change_ns, 50);
  EXPECT_NE(refusal([&] { set_pcie_constant(constants, "pcie.moon", 1); }), "");
  EXPECT_NE(refusal([&] { set_pcie_constant(constants, "pcie.stream_change", -1); }), "");
}

}  // namespace
}  // namespace penstock::model
