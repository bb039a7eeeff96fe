// SPDX-License-Identifier: Apache-2.0

#include "tools/common/nvidia_fs_page.h"

#include <gtest/gtest.h>

namespace penstock::tools {
namespace {

core::NvidiaFsStats counted(int reads, int active) {
  return core::nvidia_fs_stats("Active Process: 1\nReads\t\t: n=" + std::to_string(reads) + " ok=" +
                                   std::to_string(reads) + " err=0\nBar1-map\t: n=1 active=" + std::to_string(active) +
                                   "\nGPU 0000:3b:00.0 uuid:1 : Registered_MiB=16 Cache_MiB=0 max_pinned_MiB=32\n",
                               "0000:3b:00.0 \t0000:19:00.0 \t1\t2\t3\t4\t0\t" + std::to_string(reads) + "\tnvme\n");
}

TEST(NvidiaFsPageTest, ItsCountersHaveItsOwnNames) {
  EXPECT_EQ(nvidia_fs_text(counted(12, 1)),
            std::string(kNvidiaFsTitle) +
                "\n"
                "  Active Process: 1\n"
                "  Reads: n 12 ok 12 err 0\n"
                "  Bar1-map: n 1 active 1\n"
                "  GPU 0000:3b:00.0: 16 MiB registered, 0 MiB of caches, 32 MiB at most\n"
                "  GPU 0000:3b:00.0 and 0000:19:00.0: 12 DMA mappings\n");
  EXPECT_EQ(nvidia_fs_json(counted(12, 1))["counters"]["Reads"]["ok"], 12);
  EXPECT_EQ(nvidia_fs_json(counted(12, 1))["pairs"][0]["peer"], "0000:19:00.0");
}

TEST(NvidiaFsPageTest, WithoutTheModuleThereIsNothing) {
  EXPECT_EQ(nvidia_fs_text({}), "");
  EXPECT_TRUE(nvidia_fs_json({}).is_null());
}

TEST(NvidiaFsPageTest, OnlyWhatGrewIsOfTheTimeBetween) {
  EXPECT_EQ(nvidia_fs_text(growth_of(counted(12, 1), counted(15, 9))),
            std::string(kNvidiaFsTitle) + "\n  Reads: n 3 ok 3\n  GPU 0000:3b:00.0 and 0000:19:00.0: 3 DMA mappings\n");
  EXPECT_EQ(nvidia_fs_text(growth_of(counted(12, 1), counted(3, 1))), "") << "somebody reset them";
}

}  // namespace
}  // namespace penstock::tools
