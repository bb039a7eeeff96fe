// SPDX-License-Identifier: Apache-2.0

#include "topology/nvidia_fs_stats.h"

#include <gtest/gtest.h>

namespace penstock::core {
namespace {

constexpr const char* kStats =
    "GDS Version: 1.17.1.22 \n"
    "NVFS statistics(ver: 4.0)\n"
    "NVFS Driver(version: 2.28.4)\n"
    "Mellanox PeerDirect Supported: True\n"
    "IO stats: Enabled, peer IO stats: Enabled\n"
    "Logging level: info\n"
    "\n"
    "Active Shadow-Buffer (MiB): 128\n"
    "Active Process: 1\n"
    "Batches\t\t\t\t: n=0 ok=0 err=0 Avg-Submit-Latency(usec)=0\n"
    "Reads\t\t\t\t: n=12 ok=11 err=1 readMiB=3 io_state_err=0\n"
    "Reads\t\t\t\t: Bandwidth(MiB/s)=7 Avg-Latency(usec)=1183\n"
    "Sparse Reads\t\t\t: n=6 io=4 holes=5 pages=9\n"
    "Writes\t\t\t\t: n=8 ok=8 err=0 writeMiB=2 io_state_err=0 pg-cache=3 pg-cache-fail=0 pg-cache-eio=0\n"
    "Mmap\t\t\t\t: n=2 ok=2 err=0 munmap=1\n"
    "Bar1-map\t\t\t: n=2 ok=2 err=0 free=1 callbacks=0 active=1 delay-frees=0\n"
    "Error\t\t\t\t: cpu-gpu-pages=0 sg-ext=0 dma-map=4 dma-ref=0\n"
    "Ops\t\t\t\t: Read=1 Write=0 BatchIO=0\n"
    "GPU 0000:3b:00.0  uuid:8c9f1a2b-0000-1111-2222-333344445555 : Registered_MiB=16 Cache_MiB=2 max_pinned_MiB=32 "
    "cross_root_port(%)=0\n";

constexpr const char* kPeers =
    "gpu\tpeer\tpeerrank\tp2pdist\tlink\tgen\tnuma\tnp2p\tclass\n"
    "0000:3b:00.0 \t0000:19:00.0 \t0x00820088\t0x0082\t0x04\t0x03\t0x00\t2941\tnvme\n"
    "0000:3b:00.0 \t0000:1a:00.0 \t0x00820088\t0x0082\t0x04\t0x03\t0x00\t0\tnvme\n";

TEST(NvidiaFsStatsTest, AreReadByTheModulesOwnNames) {
  const NvidiaFsStats stats = nvidia_fs_stats(kStats, kPeers);
  EXPECT_EQ(stats.reads(), 11u);
  EXPECT_EQ(stats.writes(), 8u);
  EXPECT_EQ(stats.value("Sparse Reads", "pages"), 9u);
  EXPECT_EQ(stats.value("Error", "dma-map"), 4u);
  EXPECT_EQ(stats.value("Active Shadow-Buffer (MiB)", ""), 128u);
  EXPECT_EQ(stats.value("Reads", "Bandwidth(MiB/s)"), std::nullopt) << "a sample of some second";
  ASSERT_EQ(stats.gpus.size(), 1u);
  EXPECT_EQ(stats.gpus[0].gpu, "0000:3b:00.0");
  EXPECT_EQ(stats.gpus[0].registered_mib, 16u);
  EXPECT_EQ(stats.gpus[0].max_pinned_mib, 32u);
  ASSERT_EQ(stats.peers.size(), 1u) << "pairs that never met are left out";
  EXPECT_EQ(stats.peers[0].peer, "0000:19:00.0");
  EXPECT_EQ(stats.peers[0].mappings, 2941u);
}

TEST(NvidiaFsStatsTest, WithoutRequestsCountedTheOthersAreThere) {
  const NvidiaFsStats stats = nvidia_fs_stats(
      "Reads\t\t\t\t: err=2 io_state_err=0\nSparse Reads\t\t\t: n=0 io=0 holes=0 pages=0\n"
      "Writes\t\t\t\t: err=0 io_state_err=0 pg-cache=0 pg-cache-fail=0 pg-cache-eio=0\n");
  EXPECT_EQ(stats.reads(), std::nullopt);
  EXPECT_EQ(stats.value("Reads", "err"), 2u);
}

TEST(NvidiaFsStatsTest, TextThatIsNotTheModulesIsLeftOut) {
  EXPECT_TRUE(nvidia_fs_stats("").is_empty());
  std::string rubbish("Reads\0: ok=1\n:::\nReads: ok=-1 n=99999999999999999999 err=x\nOther: ok=3\nGPU\nGPU \n", 79);
  rubbish += "GPU \033[31mred uuid : Registered_MiB=1\nWrites";
  rubbish += std::string(1 << 16, '=') + "\n" + std::string(1 << 16, ':');
  EXPECT_TRUE(nvidia_fs_stats(rubbish, rubbish + "\na\tb\t1\tx\n0000:3b:00.0\t\033[31m\t7\tx\n").is_empty());
}

TEST(NvidiaFsStatsTest, RowsHaveALimitAndTheFirstOfTwoCounts) {
  std::string many = "Reads: ok=1\nReads: ok=2\n";
  for (int i = 0; i < 1000; ++i) many += "GPU 0000:3b:00.0 : Registered_MiB=1\n";
  const NvidiaFsStats stats = nvidia_fs_stats(many);
  EXPECT_EQ(stats.reads(), 1u);
  EXPECT_EQ(stats.gpus.size(), 256u);
}

}  // namespace
}  // namespace penstock::core
