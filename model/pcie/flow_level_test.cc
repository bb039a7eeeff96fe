// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/flow_level.h"

#include "model/pcie/test_fixture.h"

namespace penstock::model {
namespace {

// With equal streams, sharing between ports equals sharing between streams, and both simulators must agree.
TEST(FlowLevel, AgreesWithBurstsWhereStreamsAreAlike) {
  for (const char* name : {"two-switch-server", "dgx-h100", "hgx-h200", "four-l40s", "workstation"}) {
    const Machine machine = builtin_machine(name);
    for (const Pattern pattern : {Pattern::own_drive, Pattern::all_to_one, Pattern::host}) {
      Workload workload;
      workload.streams = streams_of(machine, pattern);
      for (Stream& stream : workload.streams) stream.total_bytes = 256 * kMebibyte, stream.depth = 16;
      const Network network = compile(machine, workload);

      const double bursts = simulate(network, workload).shared_bytes_per_second;
      const double flows = simulate_flows(network, workload).shared_bytes_per_second;

      EXPECT_NEAR(flows / bursts, 1, 0.03) << name << ", pattern " << static_cast<int>(pattern);
    }
  }
}

TEST(FlowLevel, WhatOneStreamLeavesTheOthersTake) {
  const Machine machine = plain_machine(2, 1, 60 * kGiga);
  Workload workload;
  workload.streams = {stream_of("nvme0", "gpu0", 64 * kMebibyte), stream_of("nvme1", "gpu0", 192 * kMebibyte)};

  const Outcome outcome = simulate_flows(compile(machine, workload), workload);

  // Both get half until the short one ends, then the other gets all: 64 and 64, then 128 at twice the rate.
  EXPECT_NEAR(outcome.streams[0].end_seconds / outcome.streams[1].end_seconds, 0.5, 1e-6);
}

TEST(FlowLevel, DepthIsALimitOfItsOwn) {
  const Machine machine = plain_machine(1, 1, 14 * kGiga);
  Workload workload;
  workload.streams = {stream_of("nvme0", "gpu0")};
  workload.streams[0].io_bytes = 4096;
  workload.streams[0].depth = 4;
  const Network network = compile(machine, workload);

  const double bursts = simulate(network, workload).bytes_per_second;

  EXPECT_NEAR(simulate_flows(network, workload).bytes_per_second / bursts, 1, 0.02);
}

TEST(FlowLevel, AFleetOf1024GpusIsHeldBackByItsStorage) {
  const Machine machine = builtin_machine("fleet");
  Workload workload;
  workload.streams = streams_of(machine, Pattern::striped);
  ASSERT_EQ(workload.streams.size(), 1024U);
  const Network network = compile(machine, workload);

  const Outcome outcome = simulate_flows(network, workload);

  EXPECT_NEAR(outcome.bytes_per_second / (64 * 50 * kGiga), 1, 0.01);
  for (const StreamResult& stream : outcome.streams) EXPECT_NEAR(stream.bytes_per_second / 3.125e9, 1, 0.01);
}

}  // namespace
}  // namespace penstock::model
