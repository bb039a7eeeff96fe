// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/simulator.h"

#include <stdexcept>

#include "model/pcie/test_fixture.h"

namespace penstock::model {
namespace {

TEST(Simulator, RunsTheSameEventsInTheSameOrderForASeed) {
  const Machine machine = builtin_machine("two-switch-server");
  Workload workload;
  workload.streams = streams_of(machine, Pattern::striped);
  for (Stream& stream : workload.streams) stream.total_bytes = 64 * kMebibyte;

  const Outcome first = run(machine, workload);
  const Outcome again = run(machine, workload);
  workload.seed = 2;
  const Outcome other = run(machine, workload);

  EXPECT_EQ(first.event_hash, again.event_hash);
  EXPECT_EQ(first.seconds, again.seconds);
  EXPECT_NE(first.event_hash, other.event_hash);
}

TEST(Simulator, EveryPatternAndPathOfEveryMachineArrivesWholeAndNoLinkExceedsItsRate) {
  for (const BuiltinMachine& known : builtin_machines()) {
    const Machine machine = known.make({});
    if (machine.nodes.size() > 1000) continue;  // The fleet is only for the flow level.
    for (const Pattern pattern :
         {Pattern::own_drive, Pattern::striped, Pattern::all_to_one, Pattern::nic, Pattern::host}) {
      if (pattern == Pattern::nic && machine.all(NodeKind::nic).empty()) continue;
      for (const PathKind path : {PathKind::direct, PathKind::through_host}) {
        Workload workload;
        workload.streams = streams_of(machine, pattern);
        for (Stream& stream : workload.streams) {
          stream.total_bytes = 5 * kMebibyte + 17;
          stream.path = path;
          stream.is_write = path == PathKind::direct && pattern != Pattern::host;
        }
        EXPECT_NO_THROW(run(machine, workload)) << known.name;  // The run checks itself.
      }
    }
  }
}

TEST(Simulator, EveryArbitrationAndIommuModeEndsWithoutBytesStuckInFullBuffers) {
  const Machine machine = builtin_machine("dgx-h100");
  for (const Arbitration arbitration :
       {Arbitration::round_robin, Arbitration::weighted_fair, Arbitration::traffic_class}) {
    for (const IommuMode iommu : {IommuMode::off, IommuMode::strict, IommuMode::redirect}) {
      Workload workload;
      workload.streams = streams_of(machine, Pattern::mixed);
      const std::vector<Stream> far = streams_of(machine, Pattern::striped);
      workload.streams.insert(workload.streams.end(), far.begin(), far.end());
      for (std::size_t i = 0; i < workload.streams.size(); ++i) {
        workload.streams[i].total_bytes = 16 * kMebibyte;
        workload.streams[i].is_write = i % 3 == 0;
      }
      workload.arbitration = arbitration;
      workload.iommu = iommu;

      EXPECT_NO_THROW(run(machine, workload));
    }
  }
}

TEST(Simulator, AFullPortHoldsBackOnlyWhatGoesThere) {
  Machine machine = plain_machine(2, 2, 40 * kGiga);
  machine.nodes[static_cast<std::size_t>(machine.find("gpu0"))].link.width = 1;

  const Outcome outcome = run(machine, {stream_of("nvme0", "gpu0", 16 * kMebibyte), stream_of("nvme1", "gpu1")});

  EXPECT_LT(outcome.streams[0].bytes_per_second, 4 * kGiga);
  EXPECT_NEAR(outcome.streams[1].bytes_per_second / (40 * kGiga), 1, 0.02);
}

// Packets of one byte are shorter than the rounding of a picosecond clock.
TEST(Simulator, TheSmallestIosArriveWholeToo) {
  const Machine machine = builtin_machine("two-switch-server");
  Stream tiny = stream_of("nvme0", "gpu0", 100000);
  tiny.io_bytes = 1;
  tiny.depth = 1024;

  EXPECT_EQ(run(machine, {tiny}).streams[0].ios, 100000U);
}

// Packets of one port share one queue, so a blocked packet blocks those behind it.
TEST(Simulator, BehindOnePortASlowTargetHoldsBackAFastOneUnlessStreamsHaveLinesOfTheirOwn) {
  Machine machine = plain_machine(1, 2, 40 * kGiga);
  machine.nodes[static_cast<std::size_t>(machine.find("gpu0"))].link.width = 1;
  Workload workload;
  workload.streams = {stream_of("nvme0", "gpu0", 64 * kMebibyte), stream_of("nvme0", "gpu1")};

  const Outcome one_line = run(machine, workload);
  workload.arbitration = Arbitration::weighted_fair;
  const Outcome own_lines = run(machine, workload);

  const StreamResult& slow = one_line.streams[0];
  EXPECT_NEAR(one_line.streams[1].shared_bytes_per_second / slow.shared_bytes_per_second, 1, 0.1);
  EXPECT_GT(own_lines.streams[1].bytes_per_second, 30 * kGiga);
}

TEST(Simulator, WeightsDecideUnderWeightedFairArbitration) {
  const Machine machine = plain_machine(2, 1, 60 * kGiga);
  Workload workload;
  workload.streams = {stream_of("nvme0", "gpu0"), stream_of("nvme1", "gpu0")};
  workload.streams[0].weight = 3;
  workload.arbitration = Arbitration::weighted_fair;

  const Outcome outcome = run(machine, workload);

  const double ratio = outcome.streams[0].shared_bytes_per_second / outcome.streams[1].shared_bytes_per_second;
  EXPECT_NEAR(ratio, 3, 0.1);
}

// Two streams from one port against one from another: ports share, then streams.
TEST(Simulator, RoundRobinSharesBetweenPortsAndNotBetweenStreams) {
  const Machine machine = plain_machine(2, 1, 60 * kGiga);
  Workload workload;
  workload.streams = {stream_of("nvme0", "gpu0"), stream_of("nvme0", "gpu0"),
                      stream_of("nvme1", "gpu0", 512 * kMebibyte)};

  const Outcome ports = run(machine, workload);
  workload.arbitration = Arbitration::weighted_fair;
  const Outcome streams = run(machine, workload);

  EXPECT_NEAR(ports.streams[2].shared_bytes_per_second / ports.shared_bytes_per_second, 0.5, 0.02);
  EXPECT_NEAR(streams.streams[2].shared_bytes_per_second / streams.shared_bytes_per_second, 1.0 / 3, 0.02);
}

TEST(Simulator, ChangingStreamsCostsNothingAloneAndMuchTogether) {
  const Machine machine = builtin_machine("two-switch-server");
  Workload workload;
  workload.streams = streams_of(machine, Pattern::own_drive, 1);
  const Network alone = compile(machine, workload);
  EXPECT_EQ(station(alone, simulate(alone, workload), "switch0 crossbar down").change_seconds, 0);

  workload.streams = streams_of(machine, Pattern::own_drive, 4);
  const Network together = compile(machine, workload);
  const Outcome outcome = simulate(together, workload);

  const StationResult& crossbar = station(together, outcome, "switch0 crossbar down");
  EXPECT_GT(crossbar.change_seconds, 0.8 * crossbar.busy_seconds);
}

TEST(Simulator, TheSizeOfABurstDoesNotChangeTheAnswer) {
  const Machine machine = builtin_machine("two-switch-server");
  Workload workload;
  workload.streams = streams_of(machine, Pattern::own_drive);
  for (Stream& stream : workload.streams) stream.total_bytes = 512 * kMebibyte;
  double first = 0;
  for (const std::uint64_t burst : {4096, 16384, 65536}) {
    workload.burst_bytes = burst;
    const double rate = run(machine, workload).bytes_per_second;
    if (first == 0) first = rate;
    EXPECT_NEAR(rate / first, 1, 0.01) << burst;
  }
}

TEST(Simulator, ADriveTakesNoMoreCommandsThanItsQueueHolds) {
  Machine machine = plain_machine(1, 1, 14 * kGiga);
  machine.nodes[static_cast<std::size_t>(machine.find("nvme0"))].queue = 2;
  Stream stream = stream_of("nvme0", "gpu0", 16 * kMebibyte);
  stream.io_bytes = 4096;
  stream.depth = 64;

  const Outcome outcome = run(machine, {stream});

  // Two at a time, about 91 us each.
  EXPECT_NEAR(outcome.bytes_per_second / (2 * 4096 / 91.5e-6), 1, 0.02);
}

TEST(Simulator, AnIoGoesOnThroughTheHostOnlyWhenItIsThereAsAWhole) {
  const Machine machine = plain_machine(1, 1, 7 * kGiga);
  Stream direct = stream_of("nvme0", "gpu0", 64 * kMebibyte);
  direct.depth = 1;
  direct.request_seconds = 0;
  Stream host = direct;
  host.path = PathKind::through_host;

  const double direct_seconds = run(machine, {direct}).streams[0].latency.mean_seconds();
  const double host_seconds = run(machine, {host}).streams[0].latency.mean_seconds();

  const double copy = kMebibyte / 60e9;  // Copied at 60 GB/s before
  const double out = kMebibyte / 56e9;   // it leaves at the link's rate.
  EXPECT_NEAR((host_seconds - direct_seconds) / (copy + out), 1, 0.1);
}

TEST(Simulator, StrictIommuSlowsTheNicAndNotTheDrive) {
  const Machine machine = builtin_machine("dgx-h100");
  for (const auto& [store, loss] : {std::pair("nic0", 0.125), std::pair("nvme0", 0.0)}) {
    Workload workload;
    workload.streams = {stream_of(store, "gpu0")};
    const double off = run(machine, workload).bytes_per_second;
    workload.iommu = IommuMode::strict;
    EXPECT_NEAR(run(machine, workload).bytes_per_second / off, 1 - loss, 0.01) << store;
  }
}

TEST(Simulator, RefusesAMachineSoSlowThatTimeRunsOut) {
  for (const double rate : {1e-3, 1e-300}) {
    const Machine machine = plain_machine(1, 1, rate);
    EXPECT_NE(refusal([&] { run(machine, {stream_of("nvme0", "gpu0")}); }).find("a rate is too low"),
              std::string::npos);
  }
}

TEST(Conservation, IsBrokenByALostByteAndByAStationBusierThanTime) {
  const Machine machine = plain_machine(1, 1, 7 * kGiga);
  Workload workload;
  workload.streams = {stream_of("nvme0", "gpu0", kMebibyte)};
  const Network network = compile(machine, workload);
  const Outcome right = simulate(network, workload);

  Outcome lost = right;
  --lost.streams[0].bytes;
  EXPECT_THROW(check_conservation(network, workload, lost), std::logic_error);
  Outcome busy = right;
  busy.stations[0].busy_seconds = 2 * busy.seconds;
  EXPECT_THROW(check_conservation(network, workload, busy), std::logic_error);
  Outcome fast = right;
  for (StationResult& station : fast.stations) station.wire_bytes *= 3;
  EXPECT_THROW(check_conservation(network, workload, fast), std::logic_error);
}

// Two switches, each with a NIC, drives and GPUs.
Machine two_sides(int drives) {
  static const PcieConstants constants;
  MachineBuilder builder("two sides", "two sides", constants);
  builder.root("socket0");
  for (int side = 0; side < 2; ++side) {
    const std::string number = std::to_string(side);
    const int below = builder.pci_switch("switch" + number, 0, 5, 16);
    builder.nic("nic" + number, below, 5, 16, 50 * kGiga);
    for (int i = 0; i < drives; ++i) {
      const std::string name = std::to_string(side * drives + i);
      builder.gpu("gpu" + name, below, 5, 16);
      Node& drive = builder.node(builder.drive("nvme" + name, below, 5, 16));
      drive.read_rate = drive.write_rate = 14 * kGiga;
      drive.jitter = 0;
    }
  }
  return builder.take();
}

Workload pipelines(const Machine& machine, unsigned stage_depth) {
  Workload workload;
  workload.streams = streams_of(machine, Pattern::pipeline);
  for (Stream& stream : workload.streams) stream.depth = 32, stream.total_bytes = 256 * kMebibyte;
  workload.stage_depth.fill(stage_depth);
  return workload;
}

TEST(Pipeline, EveryGpuReadsADriveBesideTheOtherNicByWayOfBoth) {
  const Machine machine = two_sides(4);
  const Workload workload = pipelines(machine, 0);
  ASSERT_EQ(workload.streams.size(), 8U);
  EXPECT_EQ(workload.streams[0].stores, std::vector<std::string>{"nvme4"});
  EXPECT_EQ(workload.streams[0].through, "nic1");
  const Network network = compile(machine, workload);
  EXPECT_EQ(network.plans[0].routes[0].legs.size(), 4U);
  const Outcome outcome = simulate(network, workload);
  EXPECT_EQ(station(network, outcome, "nic1 wire out").payload_bytes, 4 * 256 * kMebibyte);
  EXPECT_EQ(station(network, outcome, "nic0 wire in").payload_bytes, 4 * 256 * kMebibyte);
}

TEST(Pipeline, WithRoomInEveryStageIsAsFastAsItsSlowest) {
  const Machine machine = two_sides(1);
  const Outcome one = run(machine, pipelines(machine, 8));
  EXPECT_NEAR(one.streams[0].bytes_per_second / (14 * kGiga), 1, 0.02);
  const Machine crowded = two_sides(8);  // Eight drives of 14 GB/s share a wire of 50.
  EXPECT_NEAR(run(crowded, pipelines(crowded, 64)).shared_bytes_per_second / (100 * kGiga), 1, 0.05);
}

// With one I/O in flight every stage, the software and the access time come one after the other.
TEST(Pipeline, OfOneIoAtATimeTakesTheSumOfItsStages) {
  const Machine machine = two_sides(1);
  Workload workload = pipelines(machine, 1);
  workload.streams.resize(1);
  workload.streams[0].depth = 1;
  const Outcome outcome = run(machine, workload);
  const auto io = static_cast<double>(workload.streams[0].io_bytes);
  const double link = 55.3 * kGiga;
  const double least = 90e-6 + io / (14 * kGiga) + 2 * io / link + io / (50 * kGiga);
  EXPECT_NEAR(outcome.streams[0].latency.mean_seconds() / least, 1, 0.05);
}

TEST(Pipeline, FencesHoldIosAndCostNothingWhileOthersPass) {
  const Machine machine = two_sides(1);
  const auto seconds = [&](FenceKind fence, unsigned stage_depth) {
    Workload workload = pipelines(machine, stage_depth);
    for (Stream& stream : workload.streams) stream.fence = fence;
    return run(machine, workload).seconds;
  };
  EXPECT_NEAR(seconds(FenceKind::single, 16) / seconds(FenceKind::none, 16), 1, 0.03);
  // One at a time: 64 fences of 1 us plus 21 us on the wire are more than the drive's 75 us.
  EXPECT_NEAR(seconds(FenceKind::single, 1) / (256 * 85e-6), 1, 0.05);
}

TEST(Pipeline, WritesGoTheOtherWayAndHaveNoFences) {
  const Machine machine = two_sides(1);
  Workload workload = pipelines(machine, 4);
  for (Stream& stream : workload.streams) stream.is_write = true;
  const Network network = compile(machine, workload);
  const Outcome outcome = simulate(network, workload);
  EXPECT_GT(station(network, outcome, "nic0 wire out").payload_bytes, 0);
  workload.streams[0].fence = FenceKind::single;
  EXPECT_NE(refusal([&] { compile(machine, workload); }), "");
}

TEST(Pipeline, NeedsADriveAndTwoNics) {
  const Machine machine = plain_machine(1, 1, 14 * kGiga);
  EXPECT_NE(refusal([&] { streams_of(machine, Pattern::pipeline); }), "");
  Workload workload;
  workload.streams = {stream_of("nvme0", "gpu0")};
  workload.streams[0].path = PathKind::pipeline;
  EXPECT_NE(refusal([&] { compile(machine, workload); }), "");
}

struct Stale {
  std::uint64_t ios = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;
};

Stale stale_of(const Machine& machine, Ordering ordering, FenceKind fence) {
  Workload workload = pipelines(machine, 0);
  workload.ordering = ordering;
  workload.burst_bytes = 4096;
  for (Stream& stream : workload.streams) {
    stream.fence = fence;
    stream.io_bytes = 16384;
    stream.total_bytes = 1 << 23;
    stream.depth = 256;
  }
  const Outcome outcome = run(machine, workload);
  Stale all{0, 0, outcome.seconds};
  for (const StreamResult& stream : outcome.streams) {
    EXPECT_EQ(stream.ios, 512U);
    all.ios += stream.stale_ios;
    all.bytes += stream.stale_bytes;
  }
  return all;
}

// The drives of each side saturate the link of its NIC, so that data wait there and completions overtake them; the
// wires are not saturated, so that the NIC sends at once.
Machine crowded_links() {
  Machine machine = two_sides(8);
  for (Node& node : machine.nodes) {
    if (node.kind == NodeKind::nic) node.wire_rate = 400 * kGiga;
  }
  return machine;
}

TEST(RelaxedOrdering, CompletionsThatPassWaitingDataHaveTheNicSendStaleBytes) {
  const Machine machine = crowded_links();
  const Stale stale = stale_of(machine, Ordering::relaxed, FenceKind::none);
  EXPECT_GT(stale.ios, 100U);
  EXPECT_GE(stale.bytes, stale.ios);
}

TEST(RelaxedOrdering, FencesOrStrictOrderingLeaveNoneStale) {
  const Machine machine = crowded_links();
  for (const auto& [ordering, fence] : {std::pair{Ordering::relaxed, FenceKind::single},
                                        {Ordering::relaxed, FenceKind::coalesced},
                                        {Ordering::strict, FenceKind::none}}) {
    const Stale none = stale_of(machine, ordering, fence);
    EXPECT_EQ(none.ios, 0U);
    EXPECT_EQ(none.bytes, 0U);
  }
}

TEST(RelaxedOrdering, WithNobodyElseOnTheWayNothingIsPassed) {
  const Machine machine = two_sides(1);
  EXPECT_EQ(stale_of(machine, Ordering::relaxed, FenceKind::none).ios, 0U);
}

// As in FencesHoldIos...: one I/O at a time pays for each of its 64 fences of 1 us.
TEST(RelaxedOrdering, FencesCostWhatTheyAlwaysDo) {
  const Machine machine = two_sides(1);
  Workload workload = pipelines(machine, 1);
  workload.ordering = Ordering::relaxed;
  const double bare = run(machine, workload).seconds;
  for (Stream& stream : workload.streams) stream.fence = FenceKind::single;
  const double fenced = run(machine, workload).seconds;
  EXPECT_GT(fenced, bare);
  workload.ordering = Ordering::strict;
  EXPECT_EQ(run(machine, workload).seconds, fenced);
}

TEST(RelaxedOrdering, IsOfPipelinesThatReadAlone) {
  const Machine machine = two_sides(1);
  Workload workload = pipelines(machine, 1);
  workload.ordering = Ordering::relaxed;
  for (Stream& stream : workload.streams) stream.is_write = true;
  EXPECT_NE(refusal([&] { compile(machine, workload); }).find("relaxed ordering"), std::string::npos);
  for (Stream& stream : workload.streams) stream.is_write = false, stream.path = PathKind::direct;
  EXPECT_NE(refusal([&] { compile(machine, workload); }).find("relaxed ordering"), std::string::npos);
}

TEST(Bdf, HigherNumbersGetMoreOfACrossbar) {
  Machine machine = plain_machine(2, 1, 50 * kGiga);
  for (Node& node : machine.nodes) {
    if (node.name == "nvme0") node.address = "0000:10:00.0";
    if (node.name == "nvme1") node.address = "0000:30:00.0";
  }
  Workload workload;
  workload.arbitration = Arbitration::bdf;
  workload.streams = {stream_of("nvme0", "gpu0"), stream_of("nvme1", "gpu0")};
  const Outcome outcome = run(machine, workload);
  EXPECT_NEAR(outcome.streams[1].shared_bytes_per_second / outcome.streams[0].shared_bytes_per_second, 3, 0.2);
}

}  // namespace
}  // namespace penstock::model
