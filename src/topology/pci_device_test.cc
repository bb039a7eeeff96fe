// SPDX-License-Identifier: Apache-2.0

#include "topology/pci_device.h"

#include <gtest/gtest.h>

#include <string>

#include "topology/test_tree.h"

namespace penstock::core {
namespace {

const PciDevice& find(const std::vector<PciDevice>& devices, std::string_view address) {
  static const PciDevice kNone;
  for (const PciDevice& device : devices) {
    if (device.address == address) return device;
  }
  ADD_FAILURE() << "no " << address;
  return kNone;
}

TEST(PciDeviceTest, AddressesAreToldFromOtherNames) {
  for (const char* good : {"0000:17:00.0", "10000:e1:00.7", "abcd0123:00:1f.3"}) EXPECT_TRUE(is_pci_address(good));
  for (const char* bad :
       {"", "0000:17:00", "0000:17:00.8", "000:17:00.0", "0000:17:0.0", "pci0000:16", "0000:1g:00.0"}) {
    EXPECT_FALSE(is_pci_address(bad)) << bad;
  }
  EXPECT_EQ(pci_address_in("/sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0/nvme/nvme0"), "0000:17:00.0");
  EXPECT_EQ(pci_address_in("/sys/devices/virtual/block/md0"), "");
}

TEST(PciDeviceTest, AGpuIsReadWithItsPlace) {
  const auto devices = read_pci_devices(captured_machine("dgx-h100"));
  const PciDevice& gpu = find(devices, "0000:19:00.0");
  EXPECT_TRUE(gpu.is_nvidia_gpu());
  EXPECT_EQ(gpu.device, 0x2330);
  EXPECT_EQ(gpu.device_class, 0x030200u);
  EXPECT_EQ(gpu.driver, "nvidia");
  EXPECT_EQ(gpu.iommu_group, 1);
  EXPECT_EQ(gpu.current_link.gigatransfers_per_second, 32.0);
  EXPECT_EQ(gpu.max_link.width, 16u);
  EXPECT_EQ(gpu.host_bridge, "pci0000:16");
  EXPECT_EQ(gpu.bridges, (std::vector<std::string>{"0000:16:01.0", "0000:17:00.0", "0000:18:00.0"}));
  EXPECT_FALSE(gpu.has_peer_memory);
}

TEST(PciDeviceTest, ALinkHasTheGenerationAndTheRateOfItsSpeed) {
  const std::pair<PciLink, double> links[] = {
      {{5, 8}, 4e9}, {{8, 4}, 3.938e9}, {{16, 4}, 7.877e9}, {{32, 16}, 63.015e9}, {{64, 16}, 121e9}};
  unsigned generation = 2;
  for (const auto& [link, bytes_per_second] : links) {
    EXPECT_EQ(link.generation(), generation);
    EXPECT_NEAR(link.bytes_per_second(), bytes_per_second, 1e6) << link.gigatransfers_per_second;
    EXPECT_EQ(PciLink::of_generation(generation++, 4).gigatransfers_per_second, link.gigatransfers_per_second);
  }
  EXPECT_EQ(PciLink().generation(), 0u);
  EXPECT_EQ(PciLink().bytes_per_second(), 0);
}

TEST(PciDeviceTest, ANicIsEthernetOrAFabricAndNoWifi) {
  const auto is_nic = PciDevice::is_nic_class;
  for (const unsigned nic : {0x020000, 0x020700, 0x020800, 0x0c0600}) EXPECT_TRUE(is_nic(nic)) << nic;
  for (const unsigned other : {0x028000, 0x010802, 0x030200, 0x0c0330, 0}) EXPECT_FALSE(is_nic(other)) << other;
}

TEST(PciDeviceTest, ABarOf64BitsIsOneBarWhateverRegistersItTakes) {
  constexpr std::uint64_t kMemory = std::uint64_t{256} << 30;
  const std::string none = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
  const std::string memory = "0x0000380000000000 0x0000383fffffffff 0x000000000014220c\n" + none;
  const std::string window = "0x0000384002000000 0x0000384003ffffff 0x000000000014220c\n" + none;
  const std::pair<std::string, std::uint64_t> firsts[] = {
      {"0x00000000d0000000 0x00000000d0ffffff 0x0000000000040200\n", 16 << 20},
      {"0x0000385000000000 0x0000385003ffffff 0x000000000014220c\n" + none, 64 << 20}};
  for (const auto& [first, bytes] : firsts) {
    TestTree tree;
    tree.put("/sys/bus/pci/devices/0000:01:00.0/resource", first + memory + window + none + none);

    const PciBars bars = read_pci_bars(tree.root(), "0000:01:00.0");

    EXPECT_EQ(bars, (PciBars{bytes, kMemory, 32 << 20, 0, 0, 0})) << first;
  }
}

TEST(PciDeviceTest, ABarsSizeIsReadWhereItsFlagsAreNot) {
  TestTree tree;
  tree.put("/sys/bus/pci/devices/0000:01:00.0/resource", "0x1000 0x1fff\n0x0 0xffff 0xnothing\n0x0 0x1ff 0x100200\n");

  EXPECT_EQ(read_pci_bars(tree.root(), "0000:01:00.0"), (PciBars{4096, 65536, 512, 0, 0, 0}));
  EXPECT_EQ(read_pci_bars(tree.root(), "0000:02:00.0"), PciBars{});
}

TEST(PciDeviceTest, DevicesUnderOneSwitchAreCloserThanOthers) {
  const auto devices = read_pci_devices(captured_machine("dgx-h100"));
  const PciDevice& gpu = find(devices, "0000:19:00.0");
  EXPECT_EQ(pci_relation(gpu, find(devices, "0000:1a:00.0")), PciRelation::same_switch);
  EXPECT_EQ(pci_relation(gpu, find(devices, "0000:9c:00.0")), PciRelation::different_host_bridges);
  const auto laptop = read_pci_devices(captured_machine("laptop"));
  EXPECT_EQ(pci_relation(find(laptop, "0000:01:00.0"), find(laptop, "0000:04:00.0")), PciRelation::same_host_bridge);
}

TEST(PciDeviceTest, PeerMemoryShowsAndOtherMakersGpusAreNotOurs) {
  const auto ready = read_pci_devices(captured_machine("h200-p2pdma"));
  EXPECT_TRUE(find(ready, "0000:c3:00.0").has_peer_memory);
  EXPECT_EQ(find(ready, "0000:c3:00.0").peer_memory_bytes, std::uint64_t{256} << 30);
  const auto laptop = read_pci_devices(captured_machine("laptop"));
  EXPECT_TRUE(find(laptop, "0000:00:02.0").is_display());
  EXPECT_FALSE(find(laptop, "0000:00:02.0").is_gpu());
}

TEST(PciDeviceTest, GarbageReadsAsUnknown) {
  TestTree tree;
  const std::string device = "/sys/bus/pci/devices/0000:01:00.0";
  tree.put(device + "/vendor", "nobody").put(device + "/class", "0xffffffffffffffffffffff");
  tree.put(device + "/current_link_speed", "Unknown").put(device + "/max_link_speed", "nan GT/s");
  tree.put(device + "/current_link_width", "255").put(device + "/p2pmem/size", "-5");
  tree.put("/sys/bus/pci/devices/garbage/vendor", "0x10de");
  tree.link("/sys/bus/pci/devices/0000:02:00.0", "0000:02:00.0");
  const auto devices = read_pci_devices(tree.root());
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].vendor, 0);
  EXPECT_EQ(devices[0].device_class, 0u);
  EXPECT_EQ(devices[0].current_link.gigatransfers_per_second, 0);
  EXPECT_EQ(devices[0].max_link.gigatransfers_per_second, 0);
  EXPECT_EQ(devices[0].current_link.width, 0u);
  EXPECT_EQ(devices[0].peer_memory_bytes, 0u);
  EXPECT_EQ(devices[1].host_bridge, "");
}

TEST(PciDeviceTest, EveryDeviceOfThisMachineCanBeRead) {
  const auto devices = read_pci_devices(std::move(Root::open("").value()));
  if (devices.empty()) GTEST_SKIP() << "this machine has no PCI bus";
  for (const PciDevice& device : devices) {
    EXPECT_NE(device.vendor, 0) << device.address;
    EXPECT_NE(device.host_bridge, "") << device.address;
  }
}

}  // namespace
}  // namespace penstock::core
