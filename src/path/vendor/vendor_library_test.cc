// SPDX-License-Identifier: Apache-2.0

#include "path/vendor/vendor_library.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "path/vendor/vendor_reasons.h"

namespace penstock::core {
namespace {

class VendorLibraryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/penstock_vendor_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::filesystem::path root_;
};

TEST_F(VendorLibraryTest, TheFileThatHoldsThisCodeIsOurselves) {
  const std::string link = (root_ / "link.so").string();
  std::filesystem::create_symlink(std::filesystem::read_symlink("/proc/self/exe"), link);
  EXPECT_EQ(look_at_vendor_file(link), vendor_reason::is_ourselves);
  EXPECT_EQ(look_at_vendor_file("libcufile.so.0"), vendor_reason::library_missing) << "never by its name alone";
}

TEST_F(VendorLibraryTest, WhatIsNoFileOfAnAbsoluteNameIsNone) {
  for (const char* const name : {"", "/", "/no/such/libcufile.so.0", "vendor.so"}) {
    EXPECT_EQ(look_at_vendor_file(name), vendor_reason::library_missing) << name;
  }
  EXPECT_EQ(find_vendor_library("/no/such/root"), "");
}

TEST_F(VendorLibraryTest, IsFoundWhereTheToolkitPutsIt) {
  EXPECT_EQ(find_vendor_library(root_.string()), "");
  for (const char* folder : {"usr/lib/x86_64-linux-gnu", "usr/local/cuda-12.4/lib64", "usr/local/cuda-13.0/lib64",
                             "usr/local/cuda/targets/x86_64-linux/lib"}) {
    const std::filesystem::path file = root_ / folder / "libcufile.so.0";
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "";
    EXPECT_EQ(find_vendor_library(root_.string()), file) << "each before those that were there";
  }
}

}  // namespace
}  // namespace penstock::core
