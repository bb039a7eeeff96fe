// SPDX-License-Identifier: Apache-2.0

#include "base/cpus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "fakes/fake_environment.h"

namespace penstock::core {
namespace {

// A machine that is a few files.
class CpusTest : public testing::Test {
 protected:
  CpusTest() : root_(testing::TempDir() + "/cpus_XXXXXX") {
    EXPECT_NE(::mkdtemp(root_.data()), nullptr);
    variables.clear();
  }
  ~CpusTest() override { std::filesystem::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  unsigned share(const std::string& allowed, unsigned ranks) {
    return fair_share_of_cpus(root_, parse_cpu_list(allowed), ranks);
  }

  std::string root_;
};

TEST_F(CpusTest, AListIsReadAsTheKernelWritesIt) {
  EXPECT_EQ(parse_cpu_list("0").count(), 1u);
  EXPECT_EQ(parse_cpu_list("0-3,8,10-11").to_string().substr(kCpusMax - 12), "110100001111");
  EXPECT_EQ(parse_cpu_list("0-8191").count(), kCpusMax);
}

TEST_F(CpusTest, WhatIsNoListIsNoCpus) {
  for (const char* text : {"", ",", "-", "1-", "-1", "3-1", "0,", "0-8192", "99999999999999999999", "0 1", "a", "0-1-2",
                           "0x1", "18446744073709551615"}) {
    EXPECT_TRUE(parse_cpu_list(text).none()) << text;
  }
}

TEST_F(CpusTest, AFirstLineIsReadOfRegularFilesAlone) {
  put("/line", "0-3 \nmore");
  put("/empty", "");
  ASSERT_EQ(::mkfifo((root_ + "/pipe").c_str(), 0600), 0);

  EXPECT_EQ(read_first_line(root_ + "/line"), "0-3");
  EXPECT_EQ(read_first_line(root_ + "/empty"), "");
  EXPECT_EQ(read_first_line(root_ + "/pipe"), "");
  EXPECT_EQ(read_first_line(root_), "");
  EXPECT_EQ(read_first_line(root_ + "/nothing"), "");
}

TEST_F(CpusTest, AloneAProcessHasWhatItIsAllowed) {
  put("/sys/devices/system/cpu/online", "0-15\n");

  EXPECT_EQ(share("0-15", 1), 16u);
  EXPECT_EQ(share("0-3", 1), 4u);
  EXPECT_EQ(share("7", 1), 1u);
}

TEST_F(CpusTest, RanksShareTheMachine) {
  put("/sys/devices/system/cpu/online", "0-127\n");

  EXPECT_EQ(share("0-127", 8), 16u);
  EXPECT_EQ(share("0-127", 500), 1u);
}

TEST_F(CpusTest, ARankThatWasBoundToItsOwnCpusKeepsThem) {
  put("/sys/devices/system/cpu/online", "0-127\n");

  EXPECT_EQ(share("16-31", 8), 16u);
  EXPECT_EQ(share("0-63", 8), 16u) << "bound to a node that four ranks share";
}

TEST_F(CpusTest, RanksShareTheirContainer) {
  put("/sys/devices/system/cpu/online", "0-127\n");
  put("/proc/self/cgroup", "4:memory:/x\n0::/pod/container\n");
  put("/sys/fs/cgroup/pod/cpuset.cpus.effective", "0-63\n");
  EXPECT_EQ(share("0-63", 8), 8u);

  put("/sys/fs/cgroup/pod/container/cpuset.cpus.effective", "0-31\n");
  EXPECT_EQ(share("0-31", 8), 4u);
}

TEST_F(CpusTest, TheSmallestQuotaAboveCounts) {
  put("/sys/devices/system/cpu/online", "0-127\n");
  put("/proc/self/cgroup", "0::/pod/container\n");
  put("/sys/fs/cgroup/pod/container/cpu.max", "max 100000\n");
  put("/sys/fs/cgroup/pod/cpu.max", "350000 100000\n");
  EXPECT_EQ(share("0-127", 1), 4u);
  EXPECT_EQ(share("0-127", 2), 2u);

  put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(share("0-127", 1), 1u);
}

TEST_F(CpusTest, AQuotaMayBeAPartOfACpu) {
  const CpuSet four = parse_cpu_list("0-3");
  EXPECT_DOUBLE_EQ(cpu_limit(root_, four), 4);

  put("/proc/self/cgroup", "0::/pod\n");
  put("/sys/fs/cgroup/pod/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(cpu_limit(root_, four), 1.5);
}

TEST_F(CpusTest, TheFirstVersionsQuotaCountsToo) {
  put("/sys/devices/system/cpu/online", "0-127\n");
  put("/proc/self/cgroup", "5:cpuset:/other\n4:cpu,cpuacct:/pod/container\n0::/\n");
  put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(share("0-127", 1), 128u);

  put("/sys/fs/cgroup/cpu/pod/container/cpu.cfs_quota_us", "250000\n");
  put("/sys/fs/cgroup/cpu/pod/container/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(share("0-127", 1), 3u);
  EXPECT_DOUBLE_EQ(cpu_limit(root_, parse_cpu_list("0-127")), 2.5);
}

TEST_F(CpusTest, WhatMakesNoSenseIsAsIfItWereNotThere) {
  put("/sys/devices/system/cpu/online", "all of them");
  put("/proc/self/cgroup", "0::/../../etc\n0::/a/b/c\nnonsense");
  for (const char* quota : {"", "max", "0 100000", "1 0", "x y", "-1 100000", "100000"}) {
    put("/sys/fs/cgroup/a/b/c/cpu.max", quota);
    EXPECT_EQ(share("0-7", 1), 8u) << quota;
  }
  EXPECT_EQ(share("0-7", 2), 4u);
  EXPECT_EQ(fair_share_of_cpus(root_, {}, 1), 1u);
}

TEST_F(CpusTest, LaunchersSayHowManyRanksThereAre) {
  EXPECT_EQ(ranks_on_host(test_environment), 1u);
  variables["SLURM_NTASKS_PER_NODE"] = "4";
  EXPECT_EQ(ranks_on_host(test_environment), 4u);
  variables["LOCAL_WORLD_SIZE"] = "8";
  EXPECT_EQ(ranks_on_host(test_environment), 8u);
  for (const char* text : {"", "0", "-8", "8x", "1000000", "99999999999999999999"}) {
    variables["LOCAL_WORLD_SIZE"] = text;
    EXPECT_EQ(ranks_on_host(test_environment), 4u) << text;
  }
}

TEST_F(CpusTest, AThreadGoesWhereItIsAllowedToGo) {
  std::thread([] {
    const CpuSet before = allowed_cpus();
    ASSERT_TRUE(before.any());
    CpuSet one;
    one.set(before._Find_first());

    EXPECT_TRUE(allow_cpus(one));

    EXPECT_EQ(allowed_cpus(), one);
    EXPECT_FALSE(allow_cpus({}));
  }).join();
}

}  // namespace
}  // namespace penstock::core
