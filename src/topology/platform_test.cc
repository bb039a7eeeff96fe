// SPDX-License-Identifier: Apache-2.0

#include "topology/platform.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <random>
#include <string>

#include "topology/block_device.h"
#include "topology/pci_device.h"
#include "topology/test_tree.h"

namespace penstock::core {
namespace {

TEST(PlatformTest, ACapturedMachineIsDescribed) {
  const Platform platform = read_platform(captured_machine("dgx-h100"));
  EXPECT_EQ(platform.kernel_release, "6.8.0-1020-nvidia");
  EXPECT_EQ(platform.kernel, (KernelVersion{6, 8}));
  EXPECT_EQ(platform.distribution, "DGX OS 6.2.1");
  EXPECT_EQ(platform.distribution_id, "ubuntu");
  EXPECT_EQ(platform.architecture, "x86_64");
  EXPECT_EQ(platform.cpu_model, "Intel(R) Xeon(R) Platinum 8480C");
  EXPECT_EQ(platform.cpu_count, 8u);
  EXPECT_EQ(platform.memory_bytes, std::uint64_t{2113000000} * 1024);
  EXPECT_EQ(platform.page_bytes, 4096u);
  EXPECT_EQ(platform.container, "");
  EXPECT_FALSE(platform.is_virtual_machine);
  EXPECT_FALSE(platform.is_wsl);
}

TEST(PlatformTest, ContainersAndVirtualMachinesAreToldApart) {
  EXPECT_EQ(read_platform(captured_machine("container-overlay")).container, "kubernetes");
  const Platform cloud = read_platform(captured_machine("cloud-vm"));
  EXPECT_EQ(cloud.container, "");
  EXPECT_TRUE(cloud.is_virtual_machine);
  EXPECT_EQ(cloud.virtual_machine, "Google Compute Engine");
  EXPECT_TRUE(read_platform(captured_machine("firecracker-vm")).is_virtual_machine);
  TestTree overlay;
  overlay.put("/proc/self/mountinfo", "1 0 0:9 / / rw - overlay overlay rw\n");
  EXPECT_EQ(read_platform(overlay.root()).container, "other");
  overlay.put("/proc/1/comm", "systemd\n");
  EXPECT_EQ(read_platform(overlay.root()).container, "");
}

TEST(PlatformTest, WindowsSubsystemIsSeenByItsKernel) {
  TestTree tree;
  tree.put("/proc/sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2\n");
  EXPECT_TRUE(read_platform(tree.root()).is_wsl);
}

// By symbols that were read for all who ask, and by those up to the first sign.
Tristate p2pdma_of(const Root& root) {
  const Tristate answer = kernel_has_p2pdma(root, read_kernel_symbols(root));
  EXPECT_EQ(answer, kernel_has_p2pdma(root));
  return answer;
}

TEST(PlatformTest, P2pdmaIsFoundBySymbolsThenByConfiguration) {
  EXPECT_EQ(p2pdma_of(captured_machine("dgx-h100")), Tristate::yes);
  EXPECT_EQ(p2pdma_of(captured_machine("cloud-vm")), Tristate::no);
  // The machine lists dma_pci_p2pdma_supported, which every kernel has.
  EXPECT_EQ(p2pdma_of(captured_machine("firecracker-vm")), Tristate::no);

  TestTree tree;
  tree.put("/proc/sys/kernel/osrelease", "6.13.7\n");
  EXPECT_EQ(p2pdma_of(tree.root()), Tristate::unknown);
  tree.put("/proc/kallsyms", "");
  EXPECT_EQ(p2pdma_of(tree.root()), Tristate::unknown);
  tree.put("/boot/config-6.13.7", "CONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y\n");
  EXPECT_EQ(p2pdma_of(tree.root()), Tristate::yes);
  tree.put("/proc/kallsyms", "0000000000000000 T vfs_read\n");
  EXPECT_EQ(p2pdma_of(tree.root()), Tristate::no);
  tree.put("/proc/kallsyms", "0000000000000000 d p2pdma_pgmap_ops\n");
  EXPECT_EQ(p2pdma_of(tree.root()), Tristate::yes);
}

TEST(PlatformTest, LimitsAndSwitchesAreRead) {
  const auto unlimited = read_locked_memory_limit(captured_machine("dgx-h100"));
  ASSERT_TRUE(unlimited);
  EXPECT_EQ(unlimited->soft_bytes, kUnlimited);
  EXPECT_EQ(read_locked_memory_limit(captured_machine("cloud-vm"))->soft_bytes, 65536u);
  TestTree privileged;
  privileged.put("/proc/self/limits", "Max locked memory   8192   unlimited   bytes\n");
  EXPECT_FALSE(read_locked_memory_limit(privileged.root())->is_exempt);
  privileged.put("/proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\n");
  EXPECT_TRUE(read_locked_memory_limit(privileged.root())->is_exempt);
  EXPECT_EQ(read_io_uring_disabled(captured_machine("container-overlay")), 2);
  EXPECT_EQ(read_io_uring_disabled(captured_machine("dgx-h100")), 0);
  EXPECT_EQ(read_io_uring_disabled(captured_machine("cloud-vm")), std::nullopt);
}

TEST(PlatformTest, TheIommuIsOffPassingOrTranslating) {
  const Iommu passing = read_iommu(captured_machine("dgx-h100"));
  EXPECT_EQ(passing.mode, IommuMode::passthrough);
  EXPECT_EQ(passing.identity_groups, 3u);
  EXPECT_EQ(passing.units, (std::vector<std::string>{"dmar0", "dmar1"}));
  EXPECT_EQ(passing.command_line_words, (std::vector<std::string>{"intel_iommu=on", "iommu=pt"}));
  EXPECT_EQ(read_iommu(captured_machine("laptop")).mode, IommuMode::translating);
  EXPECT_EQ(read_iommu(captured_machine("md-raid0")).mode, IommuMode::off);
  TestTree tree;
  tree.link("/sys/class/iommu/dmar0", "nowhere");
  EXPECT_EQ(read_iommu(tree.root()).mode, IommuMode::unknown);
}

TEST(PlatformTest, WhereThereIsNoDevTheDriverTellsItsGpus) {
  TestTree tree;
  tree.put("/proc/driver/nvidia/gpus/0000:17:00.0/information", "Model: \t\t NVIDIA H100\nDevice Minor: \t 1\n")
      .put("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Device Minor: \t 0\n")
      .put("/proc/driver/nvidia/gpus/0000:02:00.0/information", "Device Minor: none\n");

  EXPECT_EQ(read_nvidia_driver(tree.root()).device_nodes, (std::vector<std::string>{"nvidia0", "nvidia1"}));
  EXPECT_EQ(read_nvidia_driver(tree.root()).models, std::vector<std::string>{"NVIDIA H100"});

  tree.put("/dev/null", "");
  EXPECT_EQ(read_nvidia_driver(tree.root()).device_nodes, std::vector<std::string>{});
}

TEST(PlatformTest, TheDriverIsReadWithItsRegistryKeys) {
  const NvidiaDriver ready = read_nvidia_driver(captured_machine("h200-p2pdma"));
  EXPECT_TRUE(ready.is_loaded);
  EXPECT_TRUE(ready.is_open);
  EXPECT_EQ(ready.version, (DriverVersion{595, 45}));
  EXPECT_EQ(ready.static_bar1, 1);
  EXPECT_EQ(ready.write_combining_off, 1);
  EXPECT_TRUE(ready.has_uvm);
  EXPECT_EQ(ready.device_nodes, (std::vector<std::string>{"nvidia-uvm", "nvidia0", "nvidiactl"}));

  const NvidiaDriver closed = read_nvidia_driver(captured_machine("cloud-vm"));
  EXPECT_FALSE(closed.is_open);
  EXPECT_EQ(closed.version_text, "535.216.01");
  EXPECT_EQ(closed.static_bar1, std::nullopt);
  EXPECT_FALSE(read_nvidia_driver(captured_machine("firecracker-vm")).is_loaded);

  TestTree banner;
  banner.put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.07  Sat Feb 17\n");
  EXPECT_EQ(read_nvidia_driver(banner.root()).version, (DriverVersion{535, 161}));
}

TEST(PlatformTest, NvidiaFsListsTheStorageDriversThatServeIt) {
  const NvidiaFs served = read_nvidia_fs(captured_machine("dgx-h100"));
  EXPECT_TRUE(served.is_loaded);
  EXPECT_EQ(served.version, "2.22");
  EXPECT_EQ(served.storage_drivers, (std::vector<std::string>{"nvme"}));
  EXPECT_FALSE(read_nvidia_fs(captured_machine("h200-p2pdma")).is_loaded);
}

TEST(PlatformTest, ThisMachineAgreesWithItsSystemCalls) {
  const Root root = std::move(Root::open("").value());
  const Platform platform = read_platform(root);
  utsname names;
  ASSERT_EQ(::uname(&names), 0);
  EXPECT_EQ(platform.kernel_release, names.release);
  EXPECT_EQ(platform.architecture, names.machine);
  EXPECT_EQ(platform.page_bytes, static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  EXPECT_GT(platform.memory_bytes, 0u);
  rlimit limit;
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  const auto locked = read_locked_memory_limit(root);
  ASSERT_TRUE(locked);
  EXPECT_EQ(locked->soft_bytes, limit.rlim_cur == RLIM_INFINITY ? kUnlimited : limit.rlim_cur);
}

// Returns how many PCI and block devices there were.
std::size_t read_everything(const Root& root) {
  (void)read_platform(root);
  (void)read_io_uring_disabled(root);
  (void)read_locked_memory_limit(root);
  (void)kernel_has_p2pdma(root);
  (void)read_iommu(root);
  (void)read_nvidia_driver(root);
  (void)read_nvidia_fs(root);
  const MountTable mounts = MountTable::read(root);
  for (const Mount& mount : mounts.mounts()) {
    if (const auto number = mount_device(root, mounts, mount)) (void)read_block_device(root, mounts, *number);
  }
  std::size_t count = 0;
  for (const std::string& name : root.list("/sys/dev/block")) {
    const auto number = parse_device_number(name);
    if (number && read_block_device(root, mounts, *number)) ++count;
  }
  return count + read_pci_devices(root).size();
}

// A machine's files with a part of each overwritten: reading must end, with any result.
TEST(PlatformTest, SpoiledTreesAreReadToTheEnd) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed);
    TestTree tree;
    namespace fs = std::filesystem;
    const char* machines[] = {"dgx-h100", "md-raid0", "nfs", "laptop"};
    fs::copy(std::string(PENSTOCK_MACHINES) + machines[seed % 4], tree.path(),
             fs::copy_options::recursive | fs::copy_options::copy_symlinks | fs::copy_options::overwrite_existing);
    const Root root = tree.root(seed % 2 == 0 ? Root::Resolver::kernel : Root::Resolver::steps);
    const std::size_t devices = read_everything(root);
    for (const auto& entry : fs::recursive_directory_iterator(tree.path())) {
      if (!entry.is_regular_file() || random() % 3 == 0) continue;
      std::fstream file(entry.path(), std::ios::in | std::ios::out);
      file.seekp(static_cast<std::streamoff>(random() % 24));
      for (auto i = random() % 40; i > 0; --i) file.put(static_cast<char>(random()));
    }
    EXPECT_EQ(read_everything(root), devices) << seed;
  }
}

TEST(PlatformTest, AnEmptyTreeIsAnUnknownMachine) {
  TestTree tree;
  read_everything(tree.root());
  EXPECT_EQ(read_platform(tree.root()).kernel, KernelVersion{});
  EXPECT_EQ(read_iommu(tree.root()).mode, IommuMode::off);
  EXPECT_EQ(read_locked_memory_limit(tree.root()), std::nullopt);
}

}  // namespace
}  // namespace penstock::core
