// SPDX-License-Identifier: Apache-2.0

// A driver library that is missing, is another library, or fails to start.
#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>

#include "device/cuda/cuda_device.h"

namespace penstock::core {
namespace {

constexpr const char* kFake12 = PENSTOCK_FAKE_CUDA;

TEST(CudaDriverTest, AMissingDriverIsNoDeviceAndTheSentenceNamesTheLibrary) {
  std::string why_not;
  EXPECT_TRUE(CudaDeviceSet::open(&why_not, "libcuda-nowhere.so.1").status().is(Code::no_device));
  EXPECT_NE(why_not.find("libcuda-nowhere.so.1"), std::string::npos) << why_not;
}

TEST(CudaDriverTest, WithoutAGpuTheRealDriverIsNoDeviceAndTheSentenceNamesIt) {
  std::string why_not;
  const auto opened = CudaDeviceSet::open(&why_not);
  if (opened.ok()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_TRUE(opened.status().is(Code::no_device));
  EXPECT_NE(why_not.find("libcuda.so.1"), std::string::npos) << why_not;
}

TEST(CudaDriverTest, ALibraryThatIsNoDriverIsRefusedByTheCallItLacks) {
  std::string why_not;
  EXPECT_TRUE(CudaDeviceSet::open(&why_not, "libm.so.6").status().is(Code::no_device));
  EXPECT_NE(why_not.find("libm.so.6 has no cuInit"), std::string::npos) << why_not;
}

TEST(CudaDriverTest, ADriverThatDoesNotStartIsNoDeviceAndTheSentenceNamesItsError) {
  std::string why_not;
  ::setenv("PENSTOCK_FAKE_CUDA_INIT", "100", 1);
  EXPECT_TRUE(CudaDeviceSet::open(&why_not, kFake12).status().is(Code::no_device));
  ::unsetenv("PENSTOCK_FAKE_CUDA_INIT");
  EXPECT_NE(why_not.find("CUDA_ERROR_NO_DEVICE"), std::string::npos) << why_not;
}

}  // namespace
}  // namespace penstock::core
