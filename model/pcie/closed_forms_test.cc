// SPDX-License-Identifier: Apache-2.0

// The simulator compared with closed forms.
#include <cmath>

#include "model/pcie/test_fixture.h"

namespace penstock::model {
namespace {

double slowest_link(const Machine& machine) {
  PcieLink link = machine.node(machine.find("gpu0")).link;
  link.max_payload = 512;
  return effective_write_rate(link, 16384, PcieConstants());
}

TEST(ClosedForms, OneStreamAloneIsAsFastAsItsDriveWhereThatIsSlowest) {
  const Outcome outcome = run(plain_machine(1, 1, 7 * kGiga), {stream_of("nvme0", "gpu0", 1024 * kMebibyte)});

  EXPECT_NEAR(outcome.bytes_per_second / (7 * kGiga), 1, 0.01);
}

TEST(ClosedForms, OneStreamAloneIsAsFastAsTheSlowestLink) {
  Machine machine = plain_machine(1, 1, 1e12);
  machine.nodes[static_cast<std::size_t>(machine.find("gpu0"))].link.width = 4;

  const Outcome outcome = run(machine, {stream_of("nvme0", "gpu0", 1024 * kMebibyte)});

  EXPECT_NEAR(outcome.bytes_per_second / slowest_link(machine), 1, 0.01);
  EXPECT_TRUE(outcome.streams[0].is_bound_by_station);
}

TEST(ClosedForms, EqualStreamsShareALinkEqually) {
  for (const int count : {2, 3, 8}) {
    const Machine machine = plain_machine(count, 1, 40 * kGiga);
    std::vector<Stream> streams;
    for (int i = 0; i < count; ++i) streams.push_back(stream_of("nvme" + std::to_string(i), "gpu0", 1024 * kMebibyte));

    const Outcome outcome = run(machine, streams);

    for (const StreamResult& stream : outcome.streams) {
      EXPECT_NEAR(stream.shared_bytes_per_second * count / slowest_link(machine), 1, 0.01) << stream.name;
    }
  }
}

TEST(ClosedForms, StreamsThatShareNothingDoNotSlowEachOther) {
  const Machine machine = plain_machine(4, 4, 12 * kGiga);
  std::vector<Stream> streams;
  for (const char* i : {"0", "1", "2", "3"})
    streams.push_back(stream_of(std::string("nvme") + i, std::string("gpu") + i));

  const Outcome outcome = run(machine, streams);

  EXPECT_NEAR(outcome.bytes_per_second / (48 * kGiga), 1, 0.01);
}

// A single server with constant service and random arrivals: the mean wait is load / (2 (1 - load)) services.
TEST(ClosedForms, WaitingAtADriveIsThatOfAnMD1Queue) {
  constexpr double kService = 16384 / 4e9;
  for (const double load : {0.3, 0.5, 0.8}) {
    Machine machine = plain_machine(1, 1, 4 * kGiga);
    Node& drive = machine.nodes[static_cast<std::size_t>(machine.find("nvme0"))];
    drive.access_seconds = drive.command_seconds = 0;
    drive.queue = 0;
    Stream stream = stream_of("nvme0", "gpu0", 16384ULL * 1000000);
    stream.io_bytes = 16384;
    stream.request_seconds = 0;
    stream.arrivals_per_second = load / kService;

    const LatencyHistogram latency = run(machine, {stream}).streams[0].latency;

    Stream alone = stream;
    alone.arrivals_per_second = 0;
    alone.depth = 1;
    alone.total_bytes = alone.io_bytes;
    const double wait = latency.mean_seconds() - run(machine, {alone}).streams[0].latency.mean_seconds();
    const double expected = kService * load / (2 * (1 - load));
    EXPECT_NEAR(wait / expected, 1, 0.02) << "load " << load;
  }
}

TEST(ClosedForms, WithOneInFlightAnIoTakesTheSumOfItsParts) {
  Machine machine = plain_machine(1, 1, 4 * kGiga);
  Stream stream = stream_of("nvme0", "gpu0", 64 * kMebibyte);
  stream.depth = 1;
  stream.io_bytes = 4096;

  const Outcome outcome = run(machine, {stream});

  const PcieConstants constants;
  const PcieLink link = machine.node(machine.find("gpu0")).link;
  const double parts = (constants.drive_access_us + constants.direct_request_us) * 1e-6 + 4096 / 4e9 +
                       constants.switch_latency_ns * 1e-9 + 2 * 4096 / effective_write_rate(link, 4096, constants);
  EXPECT_NEAR(outcome.streams[0].latency.mean_seconds() / parts, 1, 0.001);
}

TEST(ClosedForms, DepthTimesSizeOverLatencyIsTheRateOfAStreamThatNothingBinds) {
  Stream stream = stream_of("nvme0", "gpu0", 64 * kMebibyte);
  stream.depth = 4;
  stream.io_bytes = 4096;

  const Outcome outcome = run(plain_machine(1, 1, 14 * kGiga), {stream});

  const double expected = 4 * 4096 / outcome.streams[0].latency.mean_seconds();
  EXPECT_NEAR(outcome.bytes_per_second / expected, 1, 0.001);
  EXPECT_FALSE(outcome.streams[0].is_bound_by_station);
}

// 16 GiB over eight drives are 131,072 chunks of 16 KiB a drive.
TEST(ClosedForms, FencesTakeTheirNumberTimesTheirTime) {
  const Machine machine = plain_machine(1, 1, 7 * kGiga);
  Workload workload;
  workload.streams = {stream_of("nvme0", "gpu0", 2048 * kMebibyte)};
  workload.streams[0].fence = FenceKind::single;
  const Network network = compile(machine, workload);

  const Outcome outcome = simulate(network, workload);

  EXPECT_NEAR(station(network, outcome, "nvme0 media").fence_seconds, 131072 * 1000e-9, 1e-6);
  EXPECT_NEAR(outcome.seconds, 2147483648.0 / 7e9 + 131072 * 1000e-9, 0.002);
}

TEST(ClosedForms, HostMemoryIsPassedFourTimesWithACopyAndTwiceWithout) {
  const Machine machine = plain_machine(1, 1, 7 * kGiga);
  for (const auto& [path, passes] : {std::pair(PathKind::through_host, 4), std::pair(PathKind::pinned_host, 2)}) {
    Workload workload;
    workload.streams = {stream_of("nvme0", "gpu0")};
    workload.streams[0].path = path;
    const Network network = compile(machine, workload);

    const Outcome outcome = simulate(network, workload);

    const StationResult& memory = station(network, outcome, "socket0 memory");
    EXPECT_NEAR(memory.wire_bytes / static_cast<double>(outcome.bytes), passes, 1e-9);
  }
}

}  // namespace
}  // namespace penstock::model
