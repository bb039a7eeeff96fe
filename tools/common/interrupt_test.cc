// SPDX-License-Identifier: Apache-2.0

// The first Ctrl-C ends the built tool, whatever it is doing, and nothing unfinished is left. How soon is not judged: a
// machine that has other things to do decides it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "fakes/tool_fixture.h"
#include "fakes/waiting.h"

namespace penstock::tools {
namespace {

using Names = std::vector<std::string>;
constexpr double kCpuSecondsOfWork = 0.3;  // Starting takes a tenth of that.

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
    kill(child, signal_number);
    const Finished done = wait(child);
    EXPECT_EQ(done.signal_number, signal_number) << done.err;
  }
};

TEST_F(Interrupt, EndsWhatOnlyComputes) {
  if (!fs::exists(fs::path(PENSTOCK_TOOL).parent_path() / "penstock-model")) GTEST_SKIP() << "needs penstock-model";
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = start({"model", "contention", "--sweep", "--size", "100G"});
    wait_for_work(child);
    expect_end_by(signal_number, child);
  }
}

// A pipe that takes no byte more before somebody reads.
void make_full_pipe(int (&ends)[2]) {
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const std::string filling(1 << 16, 'x');
  while (write(ends[1], filling.data(), filling.size()) > 0) {
  }
  for (const int end : ends) ASSERT_EQ(fcntl(end, F_SETFL, 0), 0);
}

// A thread of the tool's waits for what its others block.
bool waits_for(pid_t process, int signal_number) {
  const std::string status = text_of("/proc/" + std::to_string(process) + "/status");
  const std::size_t at = status.find("\nSigBlk:");
  const std::uint64_t blocked = at == std::string::npos ? 0 : std::stoull(status.substr(at + 8), nullptr, 16);
  return (blocked >> (signal_number - 1) & 1) != 0;
}

// It waits for the reader of its output, so it cannot have ended before the signal comes.
TEST_F(Interrupt, IsStillIgnoredWhereItWasIgnored) {
  make("data", 1 << 20);
  int ends[2];
  ASSERT_NO_FATAL_FAILURE(make_full_pipe(ends));
  const pid_t child = start({"bench", "data", "--time", "0.1"}, [&] {
    signal(SIGHUP, SIG_IGN);
    dup2(ends[1], STDOUT_FILENO);
  });
  close(ends[1]);
  ASSERT_TRUE(wait_until([&] { return waits_for(child, SIGTERM); }));
  kill(child, SIGHUP);
  char part[1 << 12];
  while (read(ends[0], part, sizeof part) > 0) {
  }
  close(ends[0]);
  EXPECT_EQ(wait(child).exit_code, 0);
}

// The file is there before there is something to tell, and then the command waits for a reader.
TEST_F(Interrupt, EndsWhatWaitsForTheReaderOfItsOutputAndTakesItsNewFileAway) {
  int ends[2];
  ASSERT_NO_FATAL_FAILURE(make_full_pipe(ends));
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
