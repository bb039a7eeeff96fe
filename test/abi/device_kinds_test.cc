// SPDX-License-Identifier: Apache-2.0

// One session with devices of several kinds, from outside: memory that stands in for GPUs, and GPUs of a CUDA driver
// without any (test/fakes/fake_cuda), which is loaded as libcuda.so.1.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "penstock/penstock.hpp"

namespace {

using penstock::Config;
using penstock::Outcome;
using penstock::Session;

constexpr std::size_t kSize = (3 << 20) + 77;

std::string kind_of(Session& session, unsigned ordinal) {
  const auto device = session.device(ordinal);
  EXPECT_TRUE(device && device->ordinal == ordinal);
  return device ? device->kind : "";
}

TEST(DeviceKindsTest, GpusAreOpenedUnasked) {
  auto session = Session::open();
  ASSERT_TRUE(session) << session.error().message();
  EXPECT_STREQ(session->info()->device_kinds, "cuda");
  EXPECT_STREQ(session->info()->device_reason, "");
  EXPECT_EQ(kind_of(*session, 0), "cuda");
}

TEST(DeviceKindsTest, OrdinalsFollowOneAnotherInTheOrderGiven) {
  auto session = Session::open(Config().set("device", "host,cuda"));
  ASSERT_TRUE(session) << session.error().message();
  EXPECT_STREQ(session->info()->device_kinds, "host,cuda");
  ASSERT_EQ(session->info()->device_count, 4u);
  EXPECT_EQ(kind_of(*session, 1), "host");
  EXPECT_EQ(kind_of(*session, 2), "cuda");
  EXPECT_FALSE(session->device(4));
}

TEST(DeviceKindsTest, AFileIsReadIntoMemoryOfEveryKind) {
  auto session = Session::open(Config().set("device", "cuda,host"));
  ASSERT_TRUE(session) << session.error().message();
  std::string name = testing::TempDir() + "penstock_kinds_XXXXXX";
  const int fd = ::mkstemp(name.data());
  ::unlink(name.c_str());
  std::vector<std::byte> bytes(kSize);
  for (std::size_t i = 0; i < kSize; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  ASSERT_EQ(::pwrite(fd, bytes.data(), kSize, 0), static_cast<ssize_t>(kSize));
  auto file = session->file(fd);
  ASSERT_TRUE(file);

  for (unsigned ordinal = 0; ordinal < session->info()->device_count; ++ordinal) {
    auto memory = session->allocate(ordinal, kSize);
    ASSERT_TRUE(memory) << memory.error().message();
    const Outcome outcome = file->read(memory->data(), kSize, 0);
    ASSERT_TRUE(outcome.ok()) << outcome.status.message();
    EXPECT_EQ(outcome.report.bytes_by(PENSTOCK_PATH_BOUNCE) + outcome.report.bytes_by(PENSTOCK_PATH_PAGECACHE), kSize);
    std::vector<std::byte> arrived(kSize);
    ASSERT_TRUE(memory->download(0, arrived.data(), arrived.size()).ok());
    EXPECT_EQ(arrived, bytes) << ordinal;
  }
  ::close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  ::unsetenv("PENSTOCK_DEVICE");
  if (::dlopen(PENSTOCK_FAKE_CUDA, RTLD_NOW | RTLD_GLOBAL) == nullptr) return 1;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
