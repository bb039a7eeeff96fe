// SPDX-License-Identifier: Apache-2.0

#include "topology/peer_route.h"

#include <gtest/gtest.h>

#include <string>

#include "topology/direct_file.h"
#include "topology/test_tree.h"

namespace penstock::core {
namespace {

// "nvme_tcp(nvme5n1) virtual_machine?": a question mark for what is only possible.
std::string codes_of(const Findings& findings) {
  std::string text;
  for (const Finding& one : findings) {
    text += (text.empty() ? "" : " ") + std::string(one.code());
    if (one.certainty == Certainty::possible) text += "?";
  }
  return text;
}

std::string subjects_of(const Findings& findings, Obstacle obstacle) {
  std::string text;
  for (const Finding& one : findings) {
    if (one.obstacle == obstacle) text += (text.empty() ? "" : ", ") + one.subject;
  }
  return text;
}

// Judges the route between a device and the storage under a path of a captured machine.
PeerRoute route_of(const std::string& machine_name, const std::string& peer, const std::string& path) {
  const Root root = captured_machine(machine_name);
  const PeerMachine machine = read_peer_machine(root);
  const auto report = judge_direct_file(root, machine.mounts, captured_file(root, path), Op::read);
  return peer_route(root, machine, peer, report.storage.value_or(DeviceNumber{}));
}

struct Case {
  const char* machine;
  const char* peer;
  const char* path;
  const char* codes;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.machine << " " << one.peer << " " << one.path; }

class PeerRouteTest : public testing::TestWithParam<Case> {};

TEST_P(PeerRouteTest, TellsExactlyWhatStandsInTheWay) {
  const Case& one = GetParam();
  EXPECT_EQ(codes_of(route_of(one.machine, one.peer, one.path).findings), one.codes);
}

constexpr Case kCases[] = {
    {"dgx-ready", "0000:18:00.0", "/data/0", ""},
    {"dgx-ready", "0000:3b:00.0", "/data/1/file", ""},
    {"dgx-ready", "0000:9a:00.0", "/data/2", ""},
    {"dgx-ready", "0000:c3:00.0", "/data/3", ""},
    {"dgx-ready", "0000:18:00.0", "/data/3", ""},  // Apart, by host bridges that the kernel knows.
    {"dgx-ready", "0000:18:00.0", "/dev/nvme2n1", ""},
    {"dgx-ready", "0000:ff:00.0", "/data/0", "peer_unseen"},
    {"dgx-ready", "0000:17:00.0", "/data/0", "peer_no_memory"},
    {"dgx-h100", "0000:19:00.0", "/data/0", "driver_no_export static_bar1_off? bar_write_combined acs_redirect?"},
    {"h200-p2pdma", "0000:c3:00.0", "/", ""},
    {"h200-vm", "0000:00:06.0", "/",
     "kernel_no_p2pdma driver_too_old_for_kernel static_bar1_off? bar_write_combined virtio"},
    {"cloud-vm", "0000:00:04.0", "/",
     "kernel_no_p2pdma kernel_too_old driver_no_export static_bar1_off? bar_write_combined virtio"},
    {"laptop", "0000:01:00.0", "/home",
     "static_bar1_off? bar_write_combined device_mapper root_ports_apart iommu_translating?"},
    {"container-overlay", "0000:41:00.0", "/models/x", "gpu_node uvm_not_loaded? static_bar1_off? bar_write_combined?"},
    {"firecracker-vm", "0000:00:02.0", "/", "kernel_no_p2pdma peer_no_memory virtio"},
    {"dm-crypt", "0000:18:00.0", "/data", "device_mapper"},
    {"md-good", "0000:18:00.0", "/scratch", ""},
    {"md-far-leg", "0000:03:00.0", "/scratch", "root_ports_apart"},
    {"md-tcp-leg", "0000:18:00.0", "/scratch", "md_raid? nvme_tcp"},
    {"md-raid0", "0000:21:00.0", "/scratch", "kernel_no_p2pdma peer_no_memory md_raid?"},
    {"nvme-rdma", "0000:18:00.0", "/remote", "nvme_rdma? route_unseen?"},
    {"nvme-tcp", "0000:18:00.0", "/remote", "nvme_tcp"},
    {"guest-rdma", "0000:03:00.0", "/mnt/one", "nvme_rdma route_unseen? virtual_machine?"},
    {"guest-tcp", "0000:03:00.0", "/mnt/two", "nvme_tcp virtual_machine?"},
    {"nfs-tcp", "0000:18:00.0", "/models", "stack_unseen?"},
    {"iommu-translating", "0000:18:00.0", "/data", "iommu_translating?"},
    {"acs-redirect", "0000:03:00.0", "/data", "acs_redirect"},
    {"acs-redirect", "0000:03:00.0", "/more", "acs_redirect"},
    {"acs-redirect", "0000:03:00.0", "/", "root_ports_apart"},
    {"kernel-6-16", "0000:18:00.0", "/data", "kernel_6_16"},
    {"old-driver", "0000:c1:00.0", "/", "driver_too_old_for_kernel static_bar1_off? bar_write_combined"},
    {"old-driver", "0000:c2:00.0", "/data",
     "driver_too_old_for_kernel no_large_bar static_bar1_off? bar_write_combined"},
    {"host-overlay", "0000:18:00.0", "/srv/one/file", ""},
    {"cmb-peer", "0000:03:00.0", "/data", ""},
    {"cmb-peer", "0000:03:00.0", "/dev/nvme0n1", ""},
    {"cmb-peer", "0000:03:00.0", "/", ""},
    {"cmb-peer", "0000:04:00.0", "/data", "peer_no_memory"},
};
INSTANTIATE_TEST_SUITE_P(Fixtures, PeerRouteTest, testing::ValuesIn(kCases));

TEST(PeerRoutePartsTest, EachFindingNamesWhatItWasMetOn) {
  const auto subject = [](const char* machine, const char* peer, const char* path, Obstacle obstacle) {
    return subjects_of(route_of(machine, peer, path).findings, obstacle);
  };
  EXPECT_EQ(subject("md-tcp-leg", "0000:18:00.0", "/scratch", Obstacle::nvme_tcp), "nvme5n1");
  EXPECT_EQ(subject("md-far-leg", "0000:03:00.0", "/scratch", Obstacle::root_ports_apart), "nvme1n1 at 0000:05:00.0");
  EXPECT_EQ(subject("acs-redirect", "0000:03:00.0", "/data", Obstacle::acs_redirect), "0000:02:00.0");
  EXPECT_EQ(subject("old-driver", "0000:c1:00.0", "/", Obstacle::driver_too_old_for_kernel), "driver 580.159.03");
  EXPECT_EQ(subject("iommu-translating", "0000:18:00.0", "/data", Obstacle::iommu_translating), "nvme0n1");
}

TEST(PeerRoutePartsTest, EverySlaveThatRefusesIsNamed) {
  PeerMachine machine;
  BlockDevice remote;
  remote.kind = BlockKind::nvme;
  remote.transport = NvmeTransport::tcp;
  BlockDevice array;
  array.kind = BlockKind::md;
  array.md_level = "raid10";
  for (const char* name : {"nvme7n1", "nvme8n1"}) {
    remote.name = name;
    array.slaves.push_back(remote);
  }
  machine.platform.kernel = {7, 2};
  EXPECT_EQ(subjects_of(storage_findings(machine, array), Obstacle::nvme_tcp), "nvme7n1, nvme8n1");
  array.md_level = "raid5";
  EXPECT_EQ(codes_of(storage_findings(machine, array)), "md_level");
  array.md_level = "raid1";
  array.slaves.clear();
  EXPECT_EQ(codes_of(storage_findings(machine, array)), "md_members_unknown");
}

TEST(PeerRoutePartsTest, RdmaThatSoftwareMakesTakesNoDevicePages) {
  PeerMachine machine;
  BlockDevice remote;
  remote.kind = BlockKind::nvme;
  remote.transport = NvmeTransport::rdma;
  EXPECT_EQ(codes_of(storage_findings(machine, remote)), "nvme_rdma?");
  machine.has_rdma_of_software_alone = true;
  EXPECT_EQ(codes_of(storage_findings(machine, remote)), "nvme_rdma");
}

TEST(PeerRoutePartsTest, WhatStacksPassOnDependsOnTheKernel) {
  PeerMachine machine;
  BlockDevice head;
  head.kind = BlockKind::nvme;
  head.transport = NvmeTransport::pcie;
  head.is_multipath = true;
  machine.platform.kernel = {6, 18};
  EXPECT_EQ(codes_of(storage_findings(machine, head)), "nvme_multipath?");
  machine.platform.kernel = {7, 2};
  EXPECT_EQ(codes_of(storage_findings(machine, head)), "");
}

TEST(PeerRoutePartsTest, QueuesThatRefuseHaveACodeEach) {
  const std::pair<BlockKind, const char*> kinds[] = {
      {BlockKind::dm, "device_mapper"},     {BlockKind::loop, "loop"},
      {BlockKind::virtio, "virtio"},        {BlockKind::scsi, "scsi"},
      {BlockKind::zram, "memory_device"},   {BlockKind::ram, "memory_device"},
      {BlockKind::pmem, "memory_device"},   {BlockKind::mmc, "other_device"},
      {BlockKind::unknown, "other_device"}, {BlockKind::null_block, "null_device"}};
  for (const auto& [kind, code] : kinds) {
    BlockDevice device;
    device.kind = kind;
    EXPECT_EQ(codes_of(storage_findings({}, device)), code);
  }
  EXPECT_EQ(codes_of(storage_findings({}, {.kind = BlockKind::scsi, .scsi_link = "iscsi"})), "iscsi");
}

TEST(PeerRoutePartsTest, WhatADeviceDoesIsNamedWhereItsObstacleDoesNot) {
  const auto subject = [](const BlockDevice& device) { return storage_findings({}, device)[0].subject; };
  EXPECT_EQ(subject({.name = "dm-0", .kind = BlockKind::dm, .dm_type = "LVM"}), "dm-0");
  EXPECT_EQ(subject({.name = "dm-0", .kind = BlockKind::dm, .dm_type = "CRYPT"}), "dm-0");
  EXPECT_EQ(subject({.name = "dm-0", .kind = BlockKind::dm, .dm_type = "LVM", .dm_target = "cache"}),
            "dm-0, a cache on a faster drive before a slower one (dm-cache, made by LVM)");
  EXPECT_EQ(subject({.name = "bcache0"}), "bcache0, a cache before a slower drive (bcache)");
  EXPECT_EQ(subject({.name = "rbd0", .kind = BlockKind::rbd}), "rbd0, a Ceph RBD image");
}

TEST(PeerRoutePartsTest, TheDriversAgeCountsByTheKernel) {
  struct Age {
    KernelVersion kernel;
    DriverVersion driver;
    const char* code;
  };
  const Age ages[] = {{{6, 14}, {565, 56}, "driver_no_export"},          {{6, 14}, {565, 57}, ""},
                      {{6, 15}, {590, 48}, "driver_too_old_for_kernel"}, {{6, 15}, {595, 44}, ""},
                      {{6, 18}, {550, 54}, "driver_no_export"},          {{6, 18}, {0, 0}, ""}};
  for (const Age& age : ages) {
    const Root root = captured_machine("dgx-ready");
    PeerMachine machine = read_peer_machine(root);
    machine.platform.kernel = age.kernel;
    machine.nvidia.version = age.driver;
    EXPECT_EQ(codes_of(peer_findings(machine, "0000:18:00.0")), age.code);
  }
}

TEST(PeerRoutePartsTest, PeerMemoryOfAGpuProvesItsSettings) {
  const Root root = captured_machine("old-driver");
  PeerMachine machine = read_peer_machine(root);
  machine.platform.kernel = {6, 14};
  EXPECT_EQ(codes_of(peer_findings(machine, "0000:c1:00.0")), "static_bar1_off? bar_write_combined");
  machine.nvidia.static_bar1 = 0;
  EXPECT_EQ(codes_of(peer_findings(machine, "0000:c1:00.0")), "static_bar1_off bar_write_combined");
  machine.nvidia.has_parameters = false;
  machine.nvidia.static_bar1.reset();
  EXPECT_EQ(codes_of(peer_findings(machine, "0000:c1:00.0")), "static_bar1_off? bar_write_combined?");
  for (PciDevice& device : machine.pci) device.has_peer_memory = true;
  EXPECT_EQ(codes_of(peer_findings(machine, "0000:c1:00.0")), "");
}

TEST(PeerRoutePartsTest, RedirectionThatCannotBeReadIsToldByGroups) {
  const Root root = captured_machine("acs-redirect");
  PeerMachine machine = read_peer_machine(root);
  const auto stack = read_block_device(root, machine.mounts, {259, 0});
  ASSERT_TRUE(stack);
  for (PciDevice& device : machine.pci) device.redirects_peer_traffic = Tristate::unknown;
  EXPECT_EQ(codes_of(bus_findings(machine, "0000:03:00.0", *stack)), "acs_redirect?");
  // A device that shares the group of the port above it, as behind switches without ACS.
  for (PciDevice& device : machine.pci) {
    const PciDevice* above = device.bridges.empty() ? nullptr : machine.device(device.bridges.back());
    if (!device.is_bridge() && above != nullptr) device.iommu_group = above->iommu_group;
  }
  EXPECT_EQ(codes_of(bus_findings(machine, "0000:03:00.0", *stack)), "");
}

TEST(PeerRoutePartsTest, TheProcessorDecidesBetweenRootPorts) {
  const Root root = captured_machine("cmb-peer");
  PeerMachine machine = read_peer_machine(root);
  const auto far = read_block_device(root, machine.mounts, {259, 3});
  ASSERT_TRUE(far);
  EXPECT_EQ(codes_of(bus_findings(machine, "0000:03:00.0", *far)), "");
  machine.platform.cpu_family = 15;
  EXPECT_EQ(codes_of(bus_findings(machine, "0000:03:00.0", *far)), "root_ports_apart");
  const auto set_bridge = [&](std::uint16_t vendor, std::uint16_t device) {
    machine.platform.cpu_vendor = "GenuineIntel";
    machine.pci[0].vendor = vendor;
    machine.pci[0].device = device;
  };
  set_bridge(0x8086, 0x2f00);  // The kernel allows it within one host bridge only, as here.
  EXPECT_EQ(codes_of(bus_findings(machine, "0000:03:00.0", *far)), "");
  set_bridge(0x8086, 0x29c0);
  EXPECT_EQ(codes_of(bus_findings(machine, "0000:03:00.0", *far)), "root_ports_apart");
  machine.platform.kernel = {9, 0};  // A kernel whose list is not known here.
  EXPECT_EQ(codes_of(bus_findings(machine, "0000:03:00.0", *far)), "root_ports_apart?");
  set_bridge(0x10de, 0x2f00);  // On the lists of some kernels.
  machine.platform.kernel = {7, 2};
  machine.platform.is_virtual_machine = true;
  EXPECT_EQ(codes_of(bus_findings(machine, "0000:03:00.0", *far)), "root_ports_apart? virtual_machine?");
}

TEST(PeerRoutePartsTest, ATreeOfNothingOrGarbageEndsInFindings) {
  TestTree empty;
  const Root nothing = empty.root();
  const PeerMachine machine = read_peer_machine(nothing);
  EXPECT_EQ(codes_of(peer_route(nothing, machine, "0000:01:00.0", {8, 0}).findings),
            "kernel_no_p2pdma? peer_unseen stack_unseen?");
  EXPECT_TRUE(machine.peers().empty());

  TestTree garbage;
  const std::string gpu = "/sys/bus/pci/devices/0000:01:00.0";
  garbage.put(gpu + "/vendor", "0x10de").put(gpu + "/class", "0x060400").put(gpu + "/config", std::string(300, '\xff'));
  garbage.put(gpu + "/resource", "0xffffffffffffffff 0x0 0x0\n-1 5\n0x0 0xffffffffffffffff\nx\n");
  const std::vector<PciDevice> devices = read_pci_devices(garbage.root());
  ASSERT_EQ(devices.size(), 1u);
  for (const std::uint64_t bytes : devices[0].bar_bytes) EXPECT_EQ(bytes, 0u);
}

// The list of capabilities leads back to its start.
TEST(PeerRoutePartsTest, CapabilitiesInACircleEnd) {
  TestTree tree;
  const std::string bridge = "/sys/bus/pci/devices/0000:01:00.0";
  std::string space(512, '\0');
  space[0x100] = 1;
  space[0x102] = 0x00;
  space[0x103] = 0x10;  // Next: 0x100.
  tree.put(bridge + "/class", "0x060400").put(bridge + "/config", space);
  EXPECT_EQ(read_pci_devices(tree.root())[0].redirects_peer_traffic, Tristate::no);
}

}  // namespace
}  // namespace penstock::core
