// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/network.h"

#include <cmath>
#include <map>

#include "model/pcie/test_fixture.h"

namespace penstock::model {
namespace {

using Names = std::vector<std::string>;

// The stations of the first stream's first route, leg after leg.
Names way(const Machine& machine, const Stream& stream, IommuMode iommu = IommuMode::off) {
  Workload workload;
  workload.streams = {stream};
  workload.iommu = iommu;
  const Network network = compile(machine, workload);
  Names names;
  for (const Leg& leg : network.plans[0].routes[0].legs) {
    for (const Hop& hop : network.leg_hops(leg)) names.push_back(network.stations[hop.station].name);
  }
  return names;
}

TEST(Network, UnderOneSwitchNothingReachesTheRoot) {
  const Names names = way(builtin_machine("two-switch-server"), stream_of("nvme0", "gpu3"));

  EXPECT_EQ(names, (Names{"nvme0 media", "nvme0 up", "switch0 crossbar down", "gpu3 down"}));
}

TEST(Network, BetweenSwitchesTheWayGoesThroughTheRoot) {
  const Names names = way(builtin_machine("two-switch-server"), stream_of("nvme0", "gpu7"));

  EXPECT_EQ(names, (Names{"nvme0 media", "nvme0 up", "switch0 crossbar up", "switch0 up", "switch1 down",
                          "switch1 crossbar down", "gpu7 down"}));
}

TEST(Network, RedirectionSendsNeighboursThroughTheRootToo) {
  const Names names = way(builtin_machine("dgx-h100"), stream_of("nvme0", "gpu0"), IommuMode::redirect);

  EXPECT_EQ(names, (Names{"nvme0 media", "nvme0 up", "switch0 up", "switch0 down", "gpu0 down"}));
}

TEST(Network, SocketsTalkThroughTheirLink) {
  const Names names = way(builtin_machine("dgx-h100"), stream_of("nvme0", "gpu7"));

  EXPECT_EQ(names,
            (Names{"nvme0 media", "nvme0 up", "switch0 up", "socket0 to other sockets", "switch3 down", "gpu7 down"}));
}

TEST(Network, ThroughTheHostIsThreeLegs) {
  Stream stream = stream_of("nvme0", "gpu0");
  stream.path = PathKind::through_host;

  const Names names = way(builtin_machine("workstation"), stream);

  EXPECT_EQ(names,
            (Names{"nvme0 media", "nvme0 up", "cpu memory", "cpu copy", "cpu memory", "cpu memory", "gpu0 down"}));
}

TEST(Network, AWriteIsTheWayBack) {
  Stream stream = stream_of("nvme0", "gpu0");
  stream.is_write = true;

  const Names names = way(builtin_machine("two-switch-server"), stream);

  EXPECT_EQ(names, (Names{"gpu0 up", "switch0 crossbar down", "nvme0 down", "nvme0 media"}));
}

TEST(Network, RemoteStorageComesThroughTheNicBesideTheGpu) {
  const Names names = way(builtin_machine("fleet"), stream_of("storage3", "node17-gpu5"));

  EXPECT_EQ(names, (Names{"storage3 media", "storage3 wire out", "leaf1 wire in", "node17-nic4 wire in",
                          "node17-nic4 up", "node17-gpu5 down"}));
}

TEST(Network, APacketIsAsSmallAsTheSmallestMaxPayloadUpToTheRoot) {
  Machine machine = builtin_machine("two-switch-server");
  machine.nodes[static_cast<std::size_t>(machine.find("gpu3"))].link.max_payload = 128;
  Workload workload;
  workload.streams = {stream_of("nvme0", "gpu3"), stream_of("nvme4", "gpu3")};
  const Network network = compile(machine, workload);

  const auto payload_at_start = [&](std::size_t stream) {
    const Leg& leg = network.plans[stream].routes[0].legs[0];
    return network.hops[leg.hop_begin + 1].packet_bytes;
  };
  EXPECT_EQ(payload_at_start(0), 128);
  EXPECT_EQ(payload_at_start(1), 512);  // The root complex repacks.
}

TEST(Network, RefusesEndsThatAreNotThereOrCannotBeJoined) {
  const Machine machine = builtin_machine("two-switch-server");
  EXPECT_NE(refusal([&] { way(machine, stream_of("nvme9", "gpu0")); }).find("there is no 'nvme9'"), std::string::npos);
  EXPECT_NE(refusal([&] { way(machine, stream_of("gpu0", "gpu0")); }).find("begins where it ends"), std::string::npos);

  const Machine fleet = builtin_machine("fleet");
  EXPECT_NE(refusal([&] { way(fleet, stream_of("node0-gpu0", "node1-gpu0")); }).find("different hosts"),
            std::string::npos);
  Stream wrong_nic = stream_of("storage0", "node0-gpu0");
  wrong_nic.through = "node1-nic0";
  EXPECT_NE(refusal([&] { way(fleet, wrong_nic); }).find("no nic joins"), std::string::npos);
}

TEST(Workload, RefusesWhatCannotRun) {
  const Machine machine = plain_machine(1, 1, kGiga);
  const auto says = [&](const std::function<void(Stream&)>& change) {
    Stream stream = stream_of("nvme0", "gpu0");
    change(stream);
    return refusal([&] { run(machine, {stream}); });
  };

  EXPECT_NE(says([](Stream& s) { s.io_bytes = 0; }).find("an I/O has no bytes"), std::string::npos);
  EXPECT_NE(says([](Stream& s) { s.total_bytes = 0; }).find("has no bytes"), std::string::npos);
  EXPECT_NE(says([](Stream& s) { s.depth = 0; }).find("depth is 0"), std::string::npos);
  EXPECT_NE(says([](Stream& s) { s.weight = NAN; }).find("weight"), std::string::npos);
  EXPECT_NE(says([](Stream& s) { s.stores.clear(); }).find("has no store"), std::string::npos);
  EXPECT_NE(says([](Stream& s) { s.arrivals_per_second = NAN; }).find("arrivals"), std::string::npos);
  EXPECT_EQ(says([](Stream&) {}), "");
}

TEST(Workload, EachGpuReadsItsNeighbourAndNoDriveServesMoreThanItsShare) {
  const Machine machine = builtin_machine("dgx-2");

  std::map<std::string, int> taken;
  for (const Stream& stream : streams_of(machine, Pattern::own_drive)) {
    ++taken[stream.stores[0]];
    EXPECT_EQ(pcie_distance(machine, machine.find(stream.stores[0]), machine.find(stream.gpu)), 2) << stream.gpu;
  }

  EXPECT_EQ(taken.size(), 8U);
  for (const auto& [drive, count] : taken) EXPECT_EQ(count, 2) << drive;
}

}  // namespace
}  // namespace penstock::model
