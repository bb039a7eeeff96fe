// SPDX-License-Identifier: Apache-2.0

// The fabric's rows, of machines put together by hand: one right, and one with each fault.
#include <gtest/gtest.h>

#include <string>

#include "facts/examination.h"

namespace penstock::facts {
namespace {

core::RdmaPort port_of(unsigned interface_mtu) {
  core::RdmaPort port{1, "ACTIVE", "Ethernet", "200 Gb/sec (4X HDR)"};
  port.gids = port.typed_gids = 2;
  port.roce_v2_gids = port.routed_gids = 1;
  port.interfaces.push_back({"eth4", interface_mtu, true, {std::uint8_t{0x08}, ""}});
  return port;
}

Machine right_machine() {
  Machine machine;
  core::RdmaDevice device;
  device.name = "mlx5_0";
  device.pci_address = "0000:17:00.0";
  device.ports.push_back(port_of(9000));
  machine.rdma.push_back(std::move(device));
  core::PciDevice gpu;
  gpu.address = "0000:18:00.0";
  gpu.vendor = 0x10de;
  gpu.device = 0x2330;
  gpu.device_class = 0x030200;
  gpu.current_link = gpu.max_link = {32, 16};
  core::PciDevice drive;
  drive.address = "0000:19:00.0";
  drive.device_class = 0x010802;
  drive.current_link = drive.max_link = {16, 4};
  machine.pci = {gpu, drive};
  machine.nvidia.is_loaded = machine.nvidia.is_open = true;
  machine.nvidia.version_text = "595.45.04";
  machine.platform.kernel = {6, 8};
  return machine;
}

core::NvmeController target_by(core::NvmeTransport transport, const std::string& state) {
  core::NvmeController target;
  target.name = "nvme4";
  target.transport = transport;
  target.state = state;
  return target;
}

Findings judged(const Machine& machine) {
  Findings rows;
  judge_fabric(machine, rows);
  return rows;
}

// The one row of this code; a test of its own where there are several.
Finding row_of(const Machine& machine, std::string_view code) {
  for (const Finding& row : judged(machine)) {
    if (row.code == code) return row;
  }
  ADD_FAILURE() << "no row " << code;
  return {};
}

TEST(ValidateFabricTest, OnARightMachineNothingFails) {
  const Findings rows = judged(right_machine());
  for (const Finding& row : rows) EXPECT_NE(row.state, State::fail) << row.code << ": " << row.sentence;
  EXPECT_EQ(exit_code_of(rows), 0);
}

TEST(ValidateFabricTest, AFaultOfAPortFailsItsOwnRowAlone) {
  struct Fault {
    const char* code;
    const char* names;
    void (*plant)(core::RdmaPort& port);
  };
  const Fault faults[] = {
      {"rdma_port", "DOWN", [](core::RdmaPort& port) { port.state = "DOWN"; }},
      {"roce_v2_gid", "no GID of RoCE v2", [](core::RdmaPort& port) { port.roce_v2_gids = port.routed_gids = 0; }},
      {"roce_v2_gid", "are link-local", [](core::RdmaPort& port) { port.routed_gids = 0; }},
      {"roce_v2_gid",
       "no GID:", [](core::RdmaPort& port) { port.routed_gids = port.roce_v2_gids = port.gids = port.typed_gids = 0; }},
      {"rdma_mtu", "1024 bytes and could carry 4096: eth4",
       [](core::RdmaPort& port) { port.interfaces[0].mtu = 1500; }},
      {"ecn", "off for all priorities of eth4", [](core::RdmaPort& port) { port.interfaces[0].ecn = false; }}};
  for (const Fault& fault : faults) {
    Machine machine = right_machine();
    fault.plant(machine.rdma[0].ports[0]);

    for (const Finding& row : judged(machine)) {
      const bool is_its = std::string_view(row.code) == fault.code;
      EXPECT_EQ(row.state == State::fail, is_its) << fault.code << ": " << row.code << ": " << row.sentence;
      if (!is_its) continue;
      EXPECT_EQ(row.subject, "mlx5_0 port 1");
      EXPECT_NE(row.sentence.find(fault.names), std::string::npos) << row.sentence;
      EXPECT_NE(row.remedy, "") << row.code;
    }
  }
}

TEST(ValidateFabricTest, WhatAPortDoesNotTellIsUnknown) {
  Machine machine = right_machine();
  core::RdmaPort& port = machine.rdma[0].ports[0];
  port.typed_gids = port.roce_v2_gids = port.routed_gids = 0;
  port.interfaces[0] = {"eth4", 0, std::nullopt, {std::nullopt, "its driver tells nothing of it"}};

  for (const char* code : {"roce_v2_gid", "rdma_mtu", "ecn", "pfc"}) {
    EXPECT_EQ(row_of(machine, code).state, State::unknown) << code;
  }
}

TEST(ValidateFabricTest, FlowControlThatIsOffFailsWhereCongestionControlIsNotSeenToStandIn) {
  Machine machine = right_machine();
  EXPECT_EQ(row_of(machine, "pfc").sentence, "priority flow control is on for priority 3 of eth4");
  core::NetworkInterface& interface = machine.rdma[0].ports[0].interfaces[0];
  interface.flow_control.priorities = 0x28;
  EXPECT_EQ(row_of(machine, "pfc").sentence, "priority flow control is on for priorities 3, 5 of eth4");
  interface.flow_control.priorities = 0;
  EXPECT_EQ(row_of(machine, "pfc").state, State::pass) << "ECN is on";
  for (const std::optional<bool> ecn : {std::optional<bool>(), std::optional(false)}) {
    interface.ecn = ecn;
    EXPECT_EQ(row_of(machine, "pfc").state, State::fail);
  }
  interface.flow_control = {std::nullopt, "it was not captured"};
  EXPECT_EQ(row_of(machine, "pfc").state, State::unknown);
  EXPECT_NE(row_of(machine, "pfc").sentence.find("it was not captured"), std::string::npos);
  EXPECT_NE(row_of(machine, "pfc").remedy.find("dcb pfc show dev eth4"), std::string::npos);
}

TEST(ValidateFabricTest, ATargetIsLostForWantOfAPortOnlyWhereNoneIsActive) {
  Machine machine = right_machine();
  machine.controllers.push_back(target_by(core::NvmeTransport::rdma, "connecting"));
  for (const bool is_active : {true, false}) {
    machine.rdma[0].ports[0].state = is_active ? "ACTIVE" : "DOWN";
    Findings rows = judged(machine);
    settle_causes(rows);
    const auto found =
        std::find_if(rows.begin(), rows.end(), [](auto& row) { return std::string_view(row.code) == "nvme_target"; });
    ASSERT_NE(found, rows.end());
    EXPECT_EQ(found->follows_from.has_value(), !is_active);
  }
}

TEST(ValidateFabricTest, RdmaMadeBySoftwareIsSaidWhereItsBytesAre) {
  Machine machine = right_machine();
  machine.controllers.push_back(target_by(core::NvmeTransport::rdma, "live"));
  EXPECT_EQ(row_of(machine, "transport").sentence.find("software"), std::string::npos);

  machine.rdma[0].is_software = true;

  EXPECT_NE(row_of(machine, "rdma_port").sentence.find("made by software"), std::string::npos);
  EXPECT_NE(row_of(machine, "transport").sentence.find("the CPU moves every byte"), std::string::npos);
}

TEST(ValidateFabricTest, APortOfInfiniBandHasNoRowsOfEthernet) {
  Machine machine = right_machine();
  machine.rdma[0].ports[0].link_layer = "InfiniBand";
  machine.rdma[0].ports[0].roce_v2_gids = 0;

  for (const Finding& row : judged(machine)) EXPECT_NE(std::string_view(row.code), "roce_v2_gid");
  EXPECT_EQ(row_of(machine, "rdma_mtu").state, State::unknown);
  EXPECT_NE(row_of(machine, "rdma_mtu").sentence.find("through verbs only"), std::string::npos);
  EXPECT_NE(row_of(machine, "rdma_mtu").remedy.find("ibv_devinfo -d mlx5_0 -i 1"), std::string::npos);
}

TEST(ValidateFabricTest, ALinkOfFewerLanesThanDeviceAndSlotHaveFails) {
  Machine machine = right_machine();
  machine.pci[1].current_link.width = 1;
  const Findings rows = judged(machine);
  const auto found =
      std::find_if(rows.begin(), rows.end(), [](const Finding& row) { return row.state == State::fail; });
  ASSERT_NE(found, rows.end());
  EXPECT_EQ(found->subject, "drive 0000:19:00.0");
  EXPECT_EQ(found->sentence,
            "x1 at 16 GT/s (PCIe 4.0, at most 2.0 GB/s) of x4 at 16 GT/s (PCIe 4.0, at most 7.9 GB/s)");
}

TEST(ValidateFabricTest, ASlotThatIsNarrowerThanItsDeviceIsSaidAndNoFault) {
  Machine machine = right_machine();
  core::PciDevice slot;
  slot.address = "0000:16:01.0";
  slot.device_class = 0x060400;
  slot.max_link = {8, 4};
  machine.pci.insert(machine.pci.begin(), slot);
  machine.pci[2].bridges = {slot.address};
  machine.pci[2].current_link = {8, 4};
  for (const Finding& row : judged(machine)) {
    EXPECT_NE(row.state, State::fail) << row.sentence;
    if (row.subject != "drive 0000:19:00.0") continue;
    EXPECT_NE(row.sentence.find("its slot cannot"), std::string::npos) << row.sentence;
  }
}

TEST(ValidateFabricTest, AGpuThatIdlesIsNotTakenForABadLink) {
  Machine machine = right_machine();
  machine.pci[0].current_link.gigatransfers_per_second = 2.5;
  EXPECT_EQ(row_of(machine, "pcie_link").state, State::unknown);
  machine.pci[0].current_link.width = 8;
  EXPECT_EQ(row_of(machine, "pcie_link").state, State::fail);
}

TEST(ValidateFabricTest, TcpIsSaidAndFailsWhereAnRdmaDeviceIs) {
  Machine machine = right_machine();
  machine.controllers.push_back(target_by(core::NvmeTransport::tcp, "live"));
  machine.controllers.back().address = "traddr=10.0.0.1";

  const Finding with_device = row_of(machine, "transport");
  EXPECT_EQ(with_device.state, State::fail);
  EXPECT_NE(with_device.sentence.find("TCP to traddr=10.0.0.1, although this machine has the RDMA device mlx5_0"),
            std::string::npos)
      << with_device.sentence;
  machine.rdma.clear();
  const Finding without = row_of(machine, "transport");
  EXPECT_EQ(without.state, State::warn);
  EXPECT_NE(without.sentence.find("no direct path takes it"), std::string::npos) << without.sentence;
  machine.controllers[0].transport = core::NvmeTransport::rdma;
  EXPECT_EQ(row_of(machine, "transport").state, State::pass);
}

TEST(ValidateFabricTest, ATargetThatDoesNotAnswerFails) {
  Machine machine = right_machine();
  machine.controllers.push_back(target_by(core::NvmeTransport::rdma, "connecting"));
  EXPECT_EQ(row_of(machine, "nvme_target").state, State::fail);
}

TEST(ValidateFabricTest, GpuMemoryIsRegisteredByDmaBufOrByPeermem) {
  Machine machine = right_machine();
  EXPECT_EQ(row_of(machine, "gpu_memory_registration").state, State::pass);
  machine.nvidia.is_open = false;
  EXPECT_EQ(row_of(machine, "gpu_memory_registration").state, State::fail);
  machine.evidence.modules.push_back({"nvidia_peermem", "", true});
  EXPECT_EQ(row_of(machine, "gpu_memory_registration").state, State::pass);
  machine.rdma[0].pci_address = "";
  EXPECT_EQ(row_of(machine, "gpu_memory_registration").state, State::pass) << "a NIC all the same";
  machine.rdma[0].is_software = true;
  EXPECT_EQ(row_of(machine, "gpu_memory_registration").state, State::not_applicable);
  machine.rdma.clear();
  EXPECT_EQ(row_of(machine, "gpu_memory_registration").state, State::not_applicable);
}

TEST(ValidateFabricTest, AMountThatAskedForRdmaAndGotTcpFails) {
  Machine machine;
  core::FileSystem nfs;
  nfs.mount.mount_point = "/data";
  nfs.mount.type = "nfs4";
  nfs.mount.source = "server:/export";
  nfs.mount.super_options = "rw,proto=rdma";
  machine.file_systems.push_back(nfs);
  machine.places.emplace_back().transport = "tcp";
  EXPECT_EQ(row_of(machine, "transport").state, State::fail);
  machine.places[0].transport = "rdma";
  EXPECT_EQ(row_of(machine, "transport").state, State::pass);
  machine.places[0].transport = "";
  EXPECT_EQ(row_of(machine, "transport").state, State::unknown);
}

TEST(ValidateFabricTest, WhereThereIsNoFabricNothingIsJudged) {
  const Findings rows = judged(Machine{});
  for (const Finding& row : rows) EXPECT_EQ(row.state, State::not_applicable) << row.code;
  EXPECT_EQ(exit_code_of(rows), 77);
}

}  // namespace
}  // namespace penstock::facts
