// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/nvidia_kernel.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace penstock::core {
namespace {

constexpr std::size_t kMiB = 1 << 20;

class NvidiaVersionsTest : public testing::Test {
 protected:
  void SetUp() override { root_ = ::mkdtemp(text_); }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  char text_[32] = "/tmp/penstock-versions-XXXXXX";
  std::string root_;
};

TEST_F(NvidiaVersionsTest, AreReadFromTheModuleOrElseTheBanner) {
  put("/proc/sys/kernel/osrelease", "6.18.44-generic\n");
  put("/proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.57.01  Release Build\nGCC version: 12.2.0\n");
  const NvidiaVersions banner = NvidiaVersions::read(root_);
  EXPECT_EQ(banner.driver.major, 565);
  EXPECT_EQ(banner.driver.minor, 57);
  EXPECT_EQ(banner.kernel.major, 6);
  EXPECT_EQ(banner.kernel.minor, 18);
  put("/sys/module/nvidia/version", "580.159.04\n");
  EXPECT_EQ(NvidiaVersions::read(root_).driver.major, 580);
  EXPECT_EQ(NvidiaVersions::read(root_).driver.minor, 159);
}

TEST_F(NvidiaVersionsTest, AreZeroWhereThereIsNoneOrNonsense) {
  EXPECT_EQ(NvidiaVersions::read(root_).driver.major, 0);
  put("/sys/module/nvidia/version", std::string(5000, '9'));
  put("/proc/driver/nvidia/version", std::string("\0x.y 12. .5", 11));
  EXPECT_EQ(NvidiaVersions::read(root_).driver.major, 0);
  EXPECT_EQ(NvidiaVersions::read(root_).kernel.major, 0);
}

TEST(NvidiaKernelTest, TheRealOneAnswersWithErrnosAndMapsAtTheOffsetOfTheAddress) {
  NvidiaKernel& kernel = NvidiaKernel::real();
  EXPECT_EQ(kernel.open("/dev/no-such-node"), -ENOENT);
  const int fd = ::memfd_create("penstock-peer-pages", MFD_CLOEXEC);
  int argument = 0;
  EXPECT_EQ(kernel.control(fd, 37, &argument), -ENOTTY);
  std::byte* const address = kernel.reserve(kMiB);
  ASSERT_NE(address, nullptr);
  ASSERT_EQ(kernel.map_shared(address, kMiB, fd), 0);
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  char expected[96];
  std::snprintf(expected, sizeof expected, "%zx-%zx rw-s %zx ", start, start + kMiB, start);
  std::ifstream maps("/proc/self/maps");
  const std::string all(std::istreambuf_iterator<char>(maps), {});
  EXPECT_NE(all.find(expected), std::string::npos) << expected;
  EXPECT_EQ(kernel.map_shared(address + 1, kMiB, fd), -EINVAL);
  kernel.unmap(address, kMiB);
  kernel.close(fd);
}

}  // namespace
}  // namespace penstock::core
