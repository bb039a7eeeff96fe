// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/study.h"

#include <algorithm>
#include <set>

#include "model/pcie/flow_level.h"
#include "model/pcie/test_fixture.h"

namespace penstock::model {
namespace {

TEST(Study, MoreStreamsThanTheLinkCanCarryGiveNoMore) {
  const Machine machine = plain_machine(8, 1, 14 * kGiga);
  Workload workload;
  workload.streams = streams_of(machine, Pattern::all_to_one);

  const Sweep sweep = sweep_streams(machine, workload, {}, simulate, 128 * kMebibyte);

  ASSERT_EQ(sweep.points.size(), 8U);
  EXPECT_EQ(sweep.best_streams, 4U);  // Four times 14 GB/s saturate the link's 55.
  EXPECT_NEAR(sweep.points[0].bytes_per_second / (14 * kGiga), 1, 0.02);
}

TEST(Study, WithChangingStreamsTwoGiveMoreThanFourOfASwitch) {
  const Machine machine = builtin_machine("two-switch-server");
  Workload workload;
  workload.streams = streams_of(machine, Pattern::own_drive, 4);

  const Sweep sweep = sweep_streams(machine, workload, {}, simulate, 128 * kMebibyte);

  EXPECT_EQ(sweep.best_streams, 2U);
}

// The first four streams are all behind one switch; the best are two behind each.
TEST(Study, TheBestStreamsAreSoughtAmongAllAndNotTheFirst) {
  const Machine machine = builtin_machine("two-switch-server");
  Workload workload;
  workload.streams = streams_of(machine, Pattern::own_drive);

  const Sweep sweep = sweep_streams(machine, workload, {}, simulate, 64 * kMebibyte);

  EXPECT_EQ(sweep.search, Search::all);
  const SweepPoint& four = sweep.points[3];
  ASSERT_EQ(four.chosen.size(), 4U);
  EXPECT_EQ(std::count_if(four.chosen.begin(), four.chosen.end(), [](std::size_t index) { return index < 4; }), 2);
  EXPECT_GT(four.bytes_per_second, 0.98 * sweep.points[7].bytes_per_second);
}

TEST(Study, OfMoreStreamsThanCanBeTriedThoseThatShareLeastAreTaken) {
  const Machine machine = builtin_machine("dgx-2");
  Workload workload;
  workload.streams = streams_of(machine, Pattern::own_drive);

  const Sweep sweep = sweep_streams(machine, workload, {}, simulate, 16 * kMebibyte);

  EXPECT_EQ(sweep.search, Search::spread);
  // Two GPUs share a RAID card, so eight of the sixteen can have one each.
  std::set<std::string> cards;
  for (const std::size_t index : sweep.points[7].chosen) cards.insert(workload.streams[index].stores[0]);
  EXPECT_EQ(cards.size(), 8U);
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
  EXPECT_FALSE(named(crowded, "drive.gen4_read"));

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
  // No constant is missing from the table.
  EXPECT_EQ(pcie_constant_rows().size() * sizeof(double), sizeof(PcieConstants));
}

TEST(PcieConstants, WhatOtherModelsAssumeTooHasOneRowAndOneValue) {
  const PcieConstants usual;
  std::size_t shared = 0;
  for (const PcieConstantRow& row : pcie_constant_rows()) {
    const auto table = constant_table();
    const auto found =
        std::find_if(table.begin(), table.end(), [&](const ConstantFacts& facts) { return facts.name == row.name; });
    EXPECT_EQ(found != table.end(), row.is_shared) << row.name;
    if (found == table.end()) continue;
    EXPECT_EQ(usual.*row.value, found->value) << row.name;
    ++shared;
  }
  EXPECT_EQ(shared, 7U);
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
