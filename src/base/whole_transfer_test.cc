// SPDX-License-Identifier: Apache-2.0

#include "base/whole_transfer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"

namespace penstock::core {
namespace {

TEST(WholeTransferTest, WhatIsWrittenIsReadAndTheFilesEndIsNoFailure) {
  const UniqueFd file(::memfd_create("whole_transfer_test", MFD_CLOEXEC));
  ASSERT_TRUE(file.valid());
  const std::array<char, 5> text{'w', 'h', 'o', 'l', 'e'};

  ASSERT_TRUE(write_all(file.get(), std::as_bytes(std::span(text)), 100, "write").ok());

  std::array<std::byte, 64> read{};
  const Result<std::size_t> count = read_all(file.get(), read, 102, "read");
  ASSERT_TRUE(count.ok()) << describe(count.status());
  EXPECT_EQ(*count, 3u);
  EXPECT_EQ(std::memcmp(read.data(), "ole", 3), 0);
}

TEST(WholeTransferTest, AFailureHasItsErrnoAndTheStep) {
  std::array<std::byte, 8> bytes{};

  const Status written = write_all(-1, bytes, 0, "write the test's file");

  EXPECT_TRUE(written.is_errno(EBADF));
  EXPECT_STREQ(written.step, "write the test's file");
  EXPECT_TRUE(read_all(-1, bytes, 0, "read").status().is_errno(EBADF));
}

}  // namespace
}  // namespace penstock::core
