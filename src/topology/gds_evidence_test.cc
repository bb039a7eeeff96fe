// SPDX-License-Identifier: Apache-2.0

#include "topology/gds_evidence.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "topology/test_tree.h"

namespace penstock::core {
namespace {

std::string symbol(const std::string& name, const std::string& module = "") {
  return "0000000000000000 t " + name + (module.empty() ? "" : "\t[" + module + "]") + "\n";
}

GdsEvidence evidence_of(const Root& root) { return read_gds_evidence(root, read_kernel_symbols(root)); }

TEST(GdsEvidenceTest, HooksAreReadOfTheKernelsSymbols) {
  TestTree tree;
  tree.put("/proc/kallsyms", symbol("vfs_read") + symbol("nvme_v1_register_nvfs_dma_ops", "nvme") +
                                 symbol("nvme_v1_unregister_nvfs_dma_ops", "nvme") +
                                 symbol("__pfx_nvme_v1_register_nvfs_dma_ops", "nvme") +
                                 symbol("rpcrdma_register_nvfs_dma_ops", "rpcrdma") +
                                 symbol("nvme_rdma_v1_register_nvfs_dma_ops", "nvme_rdma") +
                                 symbol("scsi_v1_register_dma_scsi_ops"));

  const GdsEvidence evidence = evidence_of(tree.root());

  EXPECT_EQ(evidence.has_symbols, Tristate::yes);
  EXPECT_EQ(evidence.hooks,
            (std::vector<NvfsHook>{
                {"nvme", 1, "nvme"}, {"rpcrdma", 0, "rpcrdma"}, {"nvme_rdma", 1, "nvme_rdma"}, {"scsi", 1, ""}}));
  EXPECT_TRUE(evidence.has_hook("nvme"));
  EXPECT_FALSE(evidence.has_hook("lustre"));
}

TEST(GdsEvidenceTest, AKernelWithoutHooksIsToldApartFromOneThatListsNothing) {
  TestTree stock, closed;
  stock.put("/proc/kallsyms", symbol("vfs_read"));
  closed.put("/proc/kallsyms", "");

  EXPECT_EQ(evidence_of(stock.root()).has_symbols, Tristate::yes);
  EXPECT_EQ(evidence_of(closed.root()).has_symbols, Tristate::no);
  EXPECT_EQ(evidence_of(TestTree().root()).has_symbols, Tristate::unknown);
}

TEST(GdsEvidenceTest, LoadedModulesTellTheirVersionAndWhetherTheyLive) {
  TestTree tree;
  tree.put("/sys/module/nvidia_fs/version", "2.28\n")
      .put("/sys/module/nvidia_fs/initstate", "live\n")
      .put("/sys/module/nvidia_peermem/initstate", "going\n")
      .put("/sys/module/nvme_core/parameters/multipath", "Y\n");

  const GdsEvidence evidence = evidence_of(tree.root());

  ASSERT_EQ(evidence.modules.size(), 3u);
  EXPECT_EQ(evidence.module("nvidia_fs")->version, "2.28");
  EXPECT_TRUE(evidence.module("nvidia_fs")->is_live);
  EXPECT_FALSE(evidence.module("nvidia_peermem")->is_live);
  EXPECT_TRUE(evidence.module("nvme_core")->is_live);
  EXPECT_EQ(evidence.module("gdrdrv"), nullptr);
}

TEST(GdsEvidenceTest, TheDriversParametersAndTheMachinesMakerAreRead) {
  TestTree tree;
  tree.put("/proc/driver/nvidia/params",
           "OpenRmEnableUnsupportedGpus: 1\nRegistryDwords: \"RMForceStaticBar1=1;\"\n\nGrdmaPciTopoCheckOverride: 0\n")
      .put("/sys/class/dmi/id/sys_vendor", "Amazon EC2\n")
      .put("/sys/class/dmi/id/product_name", "p5.48xlarge\n");

  const GdsEvidence evidence = evidence_of(tree.root());

  EXPECT_EQ(evidence.driver_parameters.size(), 3u);
  EXPECT_EQ(evidence.driver_parameters.at("RegistryDwords"), "RMForceStaticBar1=1;");
  EXPECT_EQ(evidence.driver_parameters.at("OpenRmEnableUnsupportedGpus"), "1");
  EXPECT_EQ(evidence.vendor + ", " + evidence.product, "Amazon EC2, p5.48xlarge");
}

TEST(GdsEvidenceTest, GarbageIsReadWithinLimits) {
  std::mt19937 random(11);
  std::string text;
  for (int i = 0; i < 5000; ++i) {
    text += std::string(random() % 40, static_cast<char>(random())) + "_register_nvfs_dma_ops" +
            (random() % 3 == 0 ? "\n" : " \t[");
  }
  TestTree tree;
  tree.put("/proc/kallsyms", text).put("/proc/driver/nvidia/params", text).put("/sys/module/nvidia_fs/version", text);

  const GdsEvidence evidence = evidence_of(tree.root());

  EXPECT_LE(evidence.hooks.size(), 64u);
  EXPECT_LE(evidence.driver_parameters.size(), 512u);
}

TEST(GdsEvidenceTest, ThisMachineIsRead) { (void)evidence_of(Root::open("").value()); }

}  // namespace
}  // namespace penstock::core
