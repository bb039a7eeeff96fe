// SPDX-License-Identifier: Apache-2.0

// The first Ctrl-C ends the built tool within a second, whatever it is doing, and nothing unfinished is left.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "fakes/waiting.h"
#include "tools/common/tool_world.h"

namespace penstock::tools {
namespace {

using Names = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kAboutASecond{3};  // One, on a machine that has other things to do.
constexpr double kCpuSecondsOfWork = 0.3;         // Starting takes a tenth of that.

class Interrupt : public Tool {
 protected:
  void wait_for_work(pid_t child) {
    clockid_t clock{};
    ASSERT_EQ(clock_getcpuclockid(child, &clock), 0);
    ASSERT_TRUE(wait_until([&] {
      timespec used{};
      clock_gettime(clock, &used);
      return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9 > kCpuSecondsOfWork;
    }));
  }
  void expect_end_by(int signal_number, pid_t child) {
    const auto start = Clock::now();
    kill(child, signal_number);
    const Finished done = wait(child);
    EXPECT_EQ(done.signal_number, signal_number) << done.err;
    EXPECT_LT(Clock::now() - start, kAboutASecond);
  }
};

TEST_F(Interrupt, EndsWhatOnlyComputes) {
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = start({"model", "contention", "--sweep", "--size", "100G"});
    wait_for_work(child);
    expect_end_by(signal_number, child);
  }
}

TEST_F(Interrupt, IsStillIgnoredWhereItWasIgnored) {
  make("data", 1 << 20);
  const pid_t child = start({"bench", "data", "--time", "1"}, [] { signal(SIGHUP, SIG_IGN); });
  wait_for_work(child);
  kill(child, SIGHUP);
  EXPECT_EQ(wait(child).exit_code, 0);
}

// The file is there before there is something to tell, and then the command waits for a reader.
TEST_F(Interrupt, EndsWhatWaitsForTheReaderOfItsOutputAndTakesItsNewFileAway) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const std::string filling(1 << 16, 'x');
  while (write(ends[1], filling.data(), filling.size()) > 0) {
  }
  ASSERT_EQ(fcntl(ends[1], F_SETFL, 0), 0);
  for (const Names& arguments : {Names{"bench", "data", "--rw", "write", "--create", "--size", "1M"},
                                 Names{"gdsio", "-f", "data", "-s", "1M", "-I", "1", "-T", "600", "-O", "1"}}) {
    const pid_t child = start(arguments, [&] { dup2(ends[1], STDOUT_FILENO); });
    ASSERT_TRUE(wait_until([&] { return fs::exists(path("data")); }));
    expect_end_by(SIGTERM, child);
    EXPECT_EQ(folder(), Names{}) << arguments[0];
  }
  close(ends[0]);
  close(ends[1]);
}

// A FUSE mount whose daemon, the command itself, never answers.
TEST_F(Interrupt, EndsWhatIsStuckInAFileSystemThatHangs) {
  if (geteuid() != 0 || access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "needs root and /dev/fuse";
  fs::create_directory(path("hung"));
  const pid_t child = start({"cp", "hung/data", "copy"}, [] {
    const int fuse = open("/dev/fuse", O_RDWR);
    const std::string options = "fd=" + std::to_string(fuse) + ",rootmode=40000,user_id=0,group_id=0";
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("hung", "hung", "fuse", 0, options.c_str()) != 0) {
      _exit(125);
    }
  });
  const std::string place = "/proc/" + std::to_string(child) + "/wchan";
  ASSERT_TRUE(wait_until([&] { return text_of(place).find("fuse") != std::string::npos; }));
  expect_end_by(SIGINT, child);
  EXPECT_EQ(folder(), Names{"hung"});
}

}  // namespace
}  // namespace penstock::tools
