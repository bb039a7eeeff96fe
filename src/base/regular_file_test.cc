// SPDX-License-Identifier: Apache-2.0

#include "base/regular_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
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

// A hang here is the fault that this test looks for.
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

// A child process that holds a lease on the file, and gives it up when the kernel asks.
class Lease {
 public:
  explicit Lease(const std::string& path) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    process_ = ::fork();
    if (process_ == 0) {
      const char is_held = hold(path) ? 'y' : 'n';
      (void)!::write(ready[1], &is_held, 1);
      int number = 0;
      if (is_held == 'y') ::sigwait(&signals_, &number);
      ::_exit(0);  // The lease ends with the process.
    }
    ::close(ready[1]);
    char answer = 'n';
    EXPECT_EQ(::read(ready[0], &answer, 1), 1);
    ::close(ready[0]);
    is_held_ = answer == 'y';
  }
  ~Lease() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  bool is_held() const { return is_held_; }

 private:
  bool hold(const std::string& path) {
    ::sigemptyset(&signals_);
    ::sigaddset(&signals_, SIGIO);
    ::sigprocmask(SIG_BLOCK, &signals_, nullptr);
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    return fd >= 0 && ::fcntl(fd, F_SETLEASE, F_WRLCK) == 0;
  }
  sigset_t signals_ = {};
  pid_t process_ = -1;
  bool is_held_ = false;
};

TEST_F(RegularFileTest, TheEndOfALeaseIsWaitedFor) {
  ASSERT_TRUE(opened(path("file"), O_RDWR | O_CREAT).ok());
  const Lease lease(path("file"));
  if (!lease.is_held()) GTEST_SKIP() << "no leases here";

  const RegularFile file = open_regular_file(path("file"));

  EXPECT_EQ(file.error, 0);
  EXPECT_TRUE(file.fd.valid());
}

}  // namespace
}  // namespace penstock::core
