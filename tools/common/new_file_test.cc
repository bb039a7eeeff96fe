// SPDX-License-Identifier: Apache-2.0

// The remains of a file that the built tool makes, when the tool is ended or fails at the worst moment.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "fakes/tool_fixture.h"
#include "fakes/waiting.h"

namespace penstock::tools {
namespace {

using Names = std::vector<std::string>;

class NewFileTest : public Tool {
 protected:
  void SetUp() override {
    const int fd = open(path("").c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) GTEST_SKIP() << "the working directory knows no files without a name";
    close(fd);
    bytes_ = make("data", 100'000);
  }
  Finished run_when(const char* moment, const Names& arguments) {
    return run(arguments, [&] {
      setenv("PENSTOCK_TEST_MOMENT", moment, 1);
      setenv("LD_PRELOAD", PENSTOCK_BAD_MOMENTS, 1);
      setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
    });
  }

  std::string bytes_;
};

TEST_F(NewFileTest, IsNotTakenBackWhereItsFolderCannotBeFlushedAndThatIsSaid) {
  const Finished done = run_when("folder's fsync fails", {"cp", "data", "copy"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(
      done.err.find("\npenstock: copy: it is whole and in place, but a crash of the machine may take its name away: "
                    "could not flush the folder .: "),
      std::string::npos)
      << done.err;
  EXPECT_TRUE(text_of(path("copy")) == bytes_);
  EXPECT_EQ(folder(), (Names{"copy", "data"}));
}

TEST_F(NewFileTest, NeedsNoOtherNameFirstWhereItReplacesNothing) {
  const Finished done = run_when("killed at rename", {"cp", "data", "copy", "--force"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(folder(), (Names{"copy", "data"}));
}

TEST_F(NewFileTest, LosesItsOtherNameWhereItIsInterruptedBeforeItReplaces) {
  const std::string old = make("copy", 10);
  const Finished done = run_when("interrupted at rename", {"cp", "data", "copy", "--force"});
  EXPECT_EQ(done.signal_number, SIGINT) << done.err;
  EXPECT_EQ(text_of(path("copy")), old);
  EXPECT_EQ(folder(), (Names{"copy", "data"}));
}

TEST_F(NewFileTest, EndsWithASignalAlsoWhereRemovingItHangs) {
  make("copy", 10);
  const Finished done = run_when("interrupted at rename, and removing hangs", {"cp", "data", "copy", "--force"});
  EXPECT_EQ(done.signal_number, SIGINT) << done.err;
}

TEST_F(NewFileTest, OfADemoGoesWithItHoweverItEnds) {
  fs::remove(path("data"));
  const pid_t child = start({"bench", "--every-path", "--size", "64M"});
  EXPECT_TRUE(wait_until([&] { return is_making_a_file(child); }));
  kill(child, SIGKILL);
  EXPECT_EQ(wait(child).signal_number, SIGKILL);
  EXPECT_EQ(folder(), Names{});
}

}  // namespace
}  // namespace penstock::tools
