// SPDX-License-Identifier: Apache-2.0

#include "stats/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>

namespace penstock::core {
namespace {

namespace fs = std::filesystem;

// Finds our descriptor of the memfd with this name; -1 if there is none.
int descriptor_of(const std::string& name) {
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (fs::read_symlink(entry.path(), error) == "/memfd:" + name + " (deleted)") {
      return std::stoi(entry.path().filename());
    }
  }
  return -1;
}

TEST(SegmentTest, IsZeroedMemoryThatCanBeWrittenThrough) {
  const Segment segment("penstock-test", 10'000);

  ASSERT_TRUE(segment.sharing().ok()) << describe(segment.sharing());
  EXPECT_TRUE(
      std::all_of(segment.data(), segment.data() + segment.size(), [](std::byte b) { return b == std::byte{}; }));
  segment.data()[9'999] = std::byte{7};
  char last = 0;
  ASSERT_EQ(::pread(descriptor_of("penstock-test"), &last, 1, 9'999), 1);
  EXPECT_EQ(last, 7);
}

TEST(SegmentTest, CannotBeShrunkGrownOrWrittenByOthers) {
  const Segment segment("penstock-test", 4096);
  const int fd = descriptor_of("penstock-test");
  ASSERT_GE(fd, 0);

  EXPECT_EQ(::ftruncate(fd, 0), -1);
  EXPECT_EQ(::ftruncate(fd, 8192), -1);
  EXPECT_EQ(::fcntl(fd, F_GETFD), FD_CLOEXEC);
#ifdef F_SEAL_FUTURE_WRITE
  EXPECT_EQ(::pwrite(fd, "x", 1, 0), -1);
#endif
}

TEST(SegmentTest, LeavesNothingWhenItEnds) {
  { const Segment segment("penstock-test", 4096); }

  EXPECT_EQ(descriptor_of("penstock-test"), -1);
}

TEST(SegmentTest, DoesNotCloseADescriptorThatIsNoLongerItsOwn) {
  int fd = -1;
  {
    const Segment segment("penstock-test", 4096);
    fd = descriptor_of("penstock-test");
    const int other = ::open("/dev/null", O_RDONLY);
    ASSERT_EQ(::dup2(other, fd), fd);  // Some programs close all unknown descriptors in this way.
    ::close(other);
  }

  EXPECT_EQ(::fcntl(fd, F_GETFD), 0) << "the program's own descriptor was closed";
  ::close(fd);
}

TEST(SegmentTest, IsPlainMemoryWhereNoDescriptorIsToBeHad) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{3, 3};
    ::setrlimit(RLIMIT_NOFILE, &none);
    const Segment segment("penstock-test", 4096);
    segment.data()[0] = std::byte{1};
    ::_exit(segment.sharing().is_errno(EMFILE) ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(SegmentTest, AFileSizeLimitDoesNotEndTheProgram) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_DFL);
    const rlimit small{1024, 1024};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const Segment segment("penstock-test", 4096);
    segment.data()[4095] = std::byte{1};
    ::_exit(segment.sharing().is_errno(EFBIG) ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace penstock::core
