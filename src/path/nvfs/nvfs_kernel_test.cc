// SPDX-License-Identifier: Apache-2.0

// The seam to the real module, on a machine that has none: ordinary files stand for its nodes and texts.
#include "path/nvfs/nvfs_kernel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/unique_fd.h"

namespace penstock::core {
namespace {

TEST(NvfsKernelTest, TellsTheSystemsErrors) {
  const std::unique_ptr<NvfsKernel> kernel = real_nvfs_kernel("/");
  EXPECT_EQ(kernel->open_node(4711), -ENOENT);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  int error = 0;
  EXPECT_EQ(kernel->map(null.get(), 4096, error), nullptr);
  EXPECT_EQ(error, ENODEV);
  nvfs::Argument argument;
  EXPECT_EQ(kernel->control(null.get(), nvfs::kMap, argument), -ENOTTY);
}

TEST(NvfsKernelTest, AShadowBufferIsSharedWithItsNode) {
  const std::unique_ptr<NvfsKernel> kernel = real_nvfs_kernel("/");
  const UniqueFd node(::memfd_create("node", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(node.get(), 8192), 0);
  int error = 0;
  std::byte* const shadow = kernel->map(node.get(), 8192, error);
  ASSERT_NE(shadow, nullptr);
  shadow[4096] = std::byte{'s'};
  kernel->unmap(shadow, 8192);
  char seen = 0;
  EXPECT_EQ(::pread(node.get(), &seen, 1, 4096), 1);
  EXPECT_EQ(seen, 's');
}

TEST(NvfsKernelTest, TextsAreThoseOfItsRootAndEmptyWhereThereAreNone) {
  std::string name = testing::TempDir() + "/nvfs_root_XXXXXX";
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const std::filesystem::path root = name;
  std::filesystem::create_directories(root / "proc/driver/nvidia-fs");
  std::ofstream(root / "proc/driver/nvidia-fs/version") << "version: 2.28\n";
  EXPECT_EQ(real_nvfs_kernel(root)->text(nvfs::kVersionFile), "version: 2.28\n");
  EXPECT_EQ(real_nvfs_kernel(root)->text(nvfs::kStatsFile), "");
  std::filesystem::remove_all(root);
  EXPECT_EQ(real_nvfs_kernel(root)->text(nvfs::kVersionFile), "");
}

}  // namespace
}  // namespace penstock::core
