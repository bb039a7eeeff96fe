// SPDX-License-Identifier: Apache-2.0

#include "tools/stats/rates.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::tools {
namespace {

using core::Op;

core::StatsSnapshot session(std::uint64_t id, std::uint64_t bytes) {
  core::StatsSnapshot made;
  made.id = id;
  made.rows.push_back({"bounce", "stand_in", Op::read, bytes, bytes / 1000});
  return made;
}

MachineView machine(const std::vector<ProcessView>& processes) { return {processes, 0, 0}; }

ProcessView process(pid_t pid, const std::vector<core::StatsSnapshot>& sessions) { return {pid, "job", sessions, ""}; }

TEST(Rates, AreWhatWentSinceTheLastLook) {
  Rates rates;
  rates.add(machine({process(7, {session(1, 5000)})}), 0);

  const MachineRate now = rates.add(machine({process(7, {session(1, 9000)})}), 2);

  ASSERT_EQ(now.processes.size(), 1u);
  EXPECT_EQ(now.processes[0].moved.rate(Op::read), 2000);
  EXPECT_EQ(now.processes[0].moved.rate(Op::write), 0);
  EXPECT_EQ(now.moved.rate(), 2000);
  EXPECT_EQ(now.moved.ways.at({"bounce", "stand_in", Op::read}).operations, 4u);
}

TEST(Rates, WhatWasMovedBeforeTheFirstLookIsNoRate) {
  Rates rates;
  const MachineRate now = rates.add(machine({process(7, {session(1, 5000)})}), 1);
  EXPECT_EQ(now.moved.rate(), 0);
  EXPECT_TRUE(now.processes[0].history.empty());
}

TEST(Rates, ASessionThatOpensCountsFromZeroAndOneThatClosesTakesNothingAway) {
  Rates rates;
  rates.add(machine({process(7, {session(1, 5000)})}), 0);

  const MachineRate now = rates.add(machine({process(7, {session(2, 3000)})}), 1);

  EXPECT_EQ(now.moved.rate(), 3000);
}

TEST(Rates, TheBusiestProcessIsFirst) {
  Rates rates;
  rates.add(machine({}), 0);

  const MachineRate now =
      rates.add(machine({process(1, {session(1, 10)}), process(2, {session(2, 30)}), process(3, {session(3, 20)})}), 1);

  EXPECT_EQ(now.processes[0].pid, 2);
  EXPECT_EQ(now.processes[1].pid, 3);
  EXPECT_EQ(now.processes[2].pid, 1);
}

TEST(Rates, TheHistoryIsThatOfTheLastLooks) {
  Rates rates;
  MachineRate now;
  for (std::uint64_t look = 0; look < kHistoryMost + 10; ++look) {
    now = rates.add(machine({process(7, {session(1, look * look)})}), 1);
  }
  EXPECT_EQ(now.processes[0].history.size(), kHistoryMost);
  EXPECT_EQ(now.processes[0].history.back(), now.moved.rate());
}

TEST(Rates, TheGpusAreThoseThatCufileCounted) {
  ProcessView one = process(7, {session(1, 0), session(2, 0)});
  one.sessions[0].cufile.sums.gpus[3].transfers[1].bytes = 1;
  one.sessions[1].cufile.sums.gpus[0].transfers[0].bytes = 1;
  EXPECT_EQ(Rates().add(machine({one}), 1).processes[0].gpus, (std::vector<unsigned>{0, 3}));
}

}  // namespace
}  // namespace penstock::tools
