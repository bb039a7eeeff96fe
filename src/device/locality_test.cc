// SPDX-License-Identifier: Apache-2.0

#include "device/locality.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace penstock::core {
namespace {

constexpr const char* kGpu = "0000:17:00.0";
constexpr const char* kOther = "0000:97:00.0";
const Placement kAuto;

class LocalityTest : public testing::Test {
 protected:
  LocalityTest() : root_(testing::TempDir() + "/locality_XXXXXX") { EXPECT_NE(::mkdtemp(root_.data()), nullptr); }
  ~LocalityTest() override { std::filesystem::remove_all(root_); }

  void put_device(const std::string& address, const std::string& node, const std::string& cpus) {
    const std::string folder = root_ + "/sys/bus/pci/devices/" + address;
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/numa_node") << node << "\n";
    std::ofstream(folder + "/local_cpulist") << cpus << "\n";
  }
  // Runs the body in a new thread, so that the test's thread keeps its CPUs.
  template <typename Body>
  static void in_thread(Body body) {
    std::thread(body).join();
  }
  static CpuSet only(std::size_t cpu) {
    CpuSet cpus;
    cpus.set(cpu);
    return cpus;
  }

  std::string root_;
};

TEST_F(LocalityTest, ADeviceHasANodeAndItsCpus) {
  put_device(kGpu, "1", "32-63");

  const Locality locality = locality_of(root_, kGpu);

  EXPECT_EQ(locality.node, 1);
  EXPECT_EQ(locality.cpus, parse_cpu_list("32-63"));
}

TEST_F(LocalityTest, WhereTheNodeIsUnknownNothingIs) {
  for (const char* node : {"-1", "", "x", "1024", "99999999999", "1 2", "0x1"}) {
    put_device(kGpu, node, "0-3");
    EXPECT_EQ(locality_of(root_, kGpu).node, -1) << node;
    EXPECT_TRUE(locality_of(root_, kGpu).cpus.none()) << node;
  }
  EXPECT_EQ(locality_of(root_, kOther).node, -1);
}

TEST_F(LocalityTest, OnlyAnAddressBecomesPartOfAPath) {
  put_device("", "1", "0");
  put_device("x", "1", "0");

  for (const char* address : {"", ".", "..", "x", "../devices/x", ":..", "0000:17:00.0/../x"}) {
    EXPECT_EQ(locality_of(root_, address).node, -1) << address;
  }
}

TEST_F(LocalityTest, AThreadGoesToItsDevicesCpusAndBack) {
  in_thread([&] {
    const CpuSet before = allowed_cpus();
    const std::size_t first = before._Find_first();
    put_device(kGpu, "0", std::to_string(first));
    ThreadPlace place(kAuto, root_);

    place.stay_near(kGpu);
    EXPECT_EQ(allowed_cpus(), only(first));

    place.stay_near("");
    EXPECT_EQ(allowed_cpus(), before);
  });
}

TEST_F(LocalityTest, AThreadGoesFromDeviceToDevice) {
  in_thread([&] {
    const CpuSet before = allowed_cpus();
    const std::size_t first = before._Find_first(), second = before._Find_next(first);
    if (second >= kCpusMax) GTEST_SKIP() << "one CPU is no choice";
    put_device(kGpu, "0", std::to_string(first));
    put_device(kOther, "1", std::to_string(second));
    ThreadPlace place(kAuto, root_);

    for (int i = 0; i < 2; ++i) {
      place.stay_near(kGpu);
      EXPECT_EQ(allowed_cpus(), only(first));
      place.stay_near(kOther);
      EXPECT_EQ(allowed_cpus(), only(second));
    }
  });
}

TEST_F(LocalityTest, NoCpuIsUsedThatWasNotAllowed) {
  in_thread([&] {
    const std::size_t first = allowed_cpus()._Find_first();
    ASSERT_TRUE(allow_cpus(only(first)));
    put_device(kGpu, "0", "0-8191");
    put_device(kOther, "1", std::to_string(first + 1));
    ThreadPlace place(kAuto, root_);

    place.stay_near(kGpu);
    EXPECT_EQ(allowed_cpus(), only(first));
    place.stay_near(kOther);
    EXPECT_EQ(allowed_cpus(), only(first)) << "where none is allowed, it stays";
  });
}

TEST_F(LocalityTest, WhatTheUserAllowsLaterHolds) {
  in_thread([&] {
    const CpuSet before = allowed_cpus();
    const std::size_t first = before._Find_first(), second = before._Find_next(first);
    if (second >= kCpusMax) GTEST_SKIP() << "one CPU is no choice";
    put_device(kGpu, "0", std::to_string(first));
    put_device(kOther, "1", std::to_string(first) + "," + std::to_string(second));
    ThreadPlace place(kAuto, root_);
    place.stay_near(kGpu);

    ASSERT_TRUE(allow_cpus(only(second)));  // taskset -p does the same.
    place.stay_near(kOther);

    EXPECT_EQ(allowed_cpus(), only(second));
    place.stay_near("");
    EXPECT_EQ(allowed_cpus(), only(second));
  });
}

TEST_F(LocalityTest, WhereTheUserNamedCpusAThreadGoesThereForEveryDeviceAndForNone) {
  in_thread([&] {
    const CpuSet before = allowed_cpus();
    const std::size_t first = before._Find_first(), second = before._Find_next(first);
    if (second >= kCpusMax) GTEST_SKIP() << "one CPU is no choice";
    put_device(kGpu, "0", std::to_string(first));
    const Placement named{Placement::By::cpus, -1, only(second)};
    for (const char* device : {"", kGpu, kOther}) {
      ASSERT_TRUE(allow_cpus(before));
      ThreadPlace place(named, root_);
      place.stay_near(device);
      EXPECT_EQ(allowed_cpus(), only(second)) << device;
    }
  });
}

TEST_F(LocalityTest, WhereThePlacementIsOffNothingMoves) {
  in_thread([&] {
    const CpuSet before = allowed_cpus();
    put_device(kGpu, "0", std::to_string(before._Find_first()));
    const Placement off{Placement::By::nothing, -1, {}};
    ThreadPlace place(off, root_);
    place.stay_near(kGpu);
    EXPECT_EQ(allowed_cpus(), before);
    EXPECT_EQ(node_for(off, root_, kGpu), -1);
    EXPECT_EQ(node_for(kAuto, root_, kGpu), 0);
    EXPECT_EQ(node_for({Placement::By::node, 1, {}}, root_, kGpu), 1);
  });
}

TEST_F(LocalityTest, MemoryPrefersANodeAndIsUsableWhateverTheKernelSays) {
  constexpr std::size_t kSize = 1 << 20;
  for (const int node : {-1, 0, 1023, 1024, 1 << 30}) {
    void* const memory = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);

    prefer_node(memory, kSize, node);

    std::memset(memory, 1, kSize);
    int mode = -1;
    if (::syscall(SYS_get_mempolicy, &mode, nullptr, 0, memory, MPOL_F_ADDR) != 0) {
      ::munmap(memory, kSize);
      GTEST_SKIP() << "this kernel, or its sandbox, knows no memory policies: " << std::strerror(errno);
    }
    EXPECT_EQ(mode, node == 0 ? MPOL_PREFERRED : MPOL_DEFAULT) << node;
    ::munmap(memory, kSize);
  }
}

TEST_F(LocalityTest, AMemoryPolicyOfTheProcessHolds) {
  in_thread([] {
    unsigned long nodes = 1;
    if (::syscall(SYS_set_mempolicy, MPOL_BIND, &nodes, 2) != 0) GTEST_SKIP() << "no memory policies here";
    void* const memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    prefer_node(memory, 4096, 0);

    int mode = -1;
    (void)::syscall(SYS_get_mempolicy, &mode, nullptr, 0, memory, MPOL_F_ADDR);
    EXPECT_NE(mode, MPOL_PREFERRED);
    ::munmap(memory, 4096);
  });
}

}  // namespace
}  // namespace penstock::core
