// SPDX-License-Identifier: Apache-2.0

#include "base/regular_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <filesystem>

namespace penstock::core {
namespace {

namespace fs = std::filesystem;

class RegularFileTest : public testing::Test {
 protected:
  RegularFileTest() {
    std::string name = (fs::temp_directory_path() / "penstock-regular-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~RegularFileTest() override { fs::remove_all(folder_); }

  std::string path(const char* name) const { return folder_ + "/" + name; }
  static Status opened(const std::string& path, int flags) {
    return open_regular(path, flags, 0600, "open the journal").status();
  }

  std::string folder_;
};

constexpr int kWays[] = {O_RDONLY, O_WRONLY, O_RDWR, O_RDWR | O_CREAT};

// A test that hangs here has found what it looks for.
TEST_F(RegularFileTest, APipeIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  for (const int flags : kWays) {
    const Status status = opened(path("pipe"), flags);
    EXPECT_TRUE(status.is(Code::unsupported_file)) << flags << describe(status);
    EXPECT_NE(describe(status).find("open the journal " + path("pipe")), std::string::npos) << describe(status);
  }
}

TEST_F(RegularFileTest, DevicesSocketsFoldersAndLinksAreRefused) {
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path("socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  fs::create_directory(path("folder"));
  fs::create_symlink("/dev/null", path("link"));
  for (const int flags : kWays) {
    EXPECT_TRUE(opened("/dev/null", flags).is(Code::unsupported_file)) << flags;
    EXPECT_TRUE(opened(path("link"), flags).is(Code::unsupported_file)) << flags;
    EXPECT_TRUE(opened(path("socket"), flags).is(Code::unsupported_file)) << flags;
    EXPECT_TRUE(opened(path("folder"), flags).is_errno(EISDIR)) << flags;
    EXPECT_TRUE(opened(path("link"), flags | O_NOFOLLOW).is_errno(ELOOP)) << flags;
  }
  EXPECT_TRUE(opened(path("nothing"), O_RDWR).is_errno(ENOENT));
}

TEST_F(RegularFileTest, AFileIsMadeOrOpenedAndItsDescriptorBlocks) {
  for (int i = 0; i < 2; ++i) {
    const Result<RegularFile> file = open_regular(path("file"), O_RDWR | O_CREAT, 0640, "open the journal");
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(fcntl(file->fd.get(), F_GETFL) & O_NONBLOCK, 0);
    EXPECT_TRUE(S_ISREG(file->facts.st_mode));
  }
  fs::create_symlink("file", path("link"));
  EXPECT_TRUE(opened(path("link"), O_RDONLY).ok());
}

TEST_F(RegularFileTest, WhatIsKnownOfItComesWithItsErrno) {
  ASSERT_TRUE(opened(path("file"), O_RDWR | O_CREAT).ok());
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", path("link"));

  EXPECT_EQ(open_regular_file(path("file")).error, 0);
  for (const char* const name : {"pipe", "link"}) {
    const RegularFile file = open_regular_file(path(name));
    EXPECT_FALSE(file.fd.valid());
    EXPECT_EQ(file.error, EINVAL);
    EXPECT_TRUE(S_ISFIFO(file.facts.st_mode));
  }
  EXPECT_EQ(open_regular_file(folder_).error, EISDIR);
  EXPECT_EQ(open_regular_file(path("none")).error, ENOENT);
}

}  // namespace
}  // namespace penstock::core
