// SPDX-License-Identifier: Apache-2.0

// The built `penstock cp`.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fakes/tool_fixture.h"
#include "fakes/waiting.h"

namespace penstock::tools {
namespace {

using nlohmann::json;

using Names = std::vector<std::string>;

// Behind the line that says what the name is now.
std::string said(const Finished& done) { return done.err.substr(done.err.find('\n') + 1); }

TEST_F(Tool, CpKeepsBytesModeAndTime) {
  for (const std::size_t size : {0, 1, 4095, 4096, 3'000'001}) {
    const std::string bytes = make("data", size);
    fs::permissions(path("data"), fs::perms(0640));
    fs::last_write_time(path("data"), fs::file_time_type::clock::now() - std::chrono::hours(99));
    const Finished done = run({"cp", "data", "copy", "--verify", "--force", "--window", "1M"});
    ASSERT_EQ(done.exit_code, 0) << done.err;
    EXPECT_TRUE(text_of(path("copy")) == bytes) << size;
    EXPECT_EQ(fs::status(path("copy")).permissions(), fs::perms(0640));
    EXPECT_EQ(fs::last_write_time(path("copy")), fs::last_write_time(path("data")));
    EXPECT_NE(done.out.find("device: host memory standing in for a GPU (reason: "), std::string::npos);
  }
  EXPECT_EQ(folder(), (Names{"copy", "data"}));
}

TEST_F(Tool, CpTellsProgramsWhichWayTheBytesWentAndWhy) {
  make("data", 100000);
  const json told = json::parse(run({"cp", "data", "copy", "--json"}).out);
  for (const char* way : {"read", "written"}) {
    ASSERT_EQ(told[way]["paths"].size(), 1u) << told;
    EXPECT_EQ(told[way]["paths"][0]["path"], "bounce");
    EXPECT_EQ(told[way]["paths"][0]["reason"], "stand_in");
    EXPECT_EQ(told[way]["paths"][0]["bytes"], 100000);
  }
}

TEST_F(Tool, CpNamesTheRequiredPathAndWhatStandsInItsWay) {
  make("data", 100000);
  const Finished done = run({"cp", "data", "copy"}, [] { setenv("PENSTOCK_REQUIRE", "p2pdma", 1); });
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.err.find("the path p2pdma is required, and refuses reads: "), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("(stand_in)"), std::string::npos) << done.err;
  EXPECT_EQ(folder(), std::vector<std::string>{"data"});
}

TEST_F(Tool, CpIntoAFolderKeepsTheName) {
  const std::string bytes = make("data", 5000);
  fs::create_directory(path("folder"));
  EXPECT_EQ(run({"cp", "data", "folder"}).exit_code, 0);
  EXPECT_EQ(text_of(path("folder/data")), bytes);
}

TEST_F(Tool, CpKeepsHoles) {
  make("data", 8192);
  ASSERT_EQ(truncate(path("data").c_str(), 64 << 20), 0);
  struct stat source {
  }, copy{};
  ASSERT_EQ(stat(path("data").c_str(), &source), 0);
  if (source.st_blocks * 512 >= 64 << 20) GTEST_SKIP() << "this file system has no holes";
  ASSERT_EQ(run({"cp", "data", "copy", "--verify"}).exit_code, 0);
  ASSERT_EQ(stat(path("copy").c_str(), &copy), 0);
  EXPECT_EQ(copy.st_size, 64 << 20);
  EXPECT_LT(copy.st_blocks * 512, 1 << 20);
}

TEST_F(Tool, CpReplacesOnlyWhenForced) {
  const std::string bytes = make("data", 5000), old = make("copy", 100);
  const Finished refused = run({"cp", "data", "copy"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(said(refused), "penstock: copy: it exists; --force replaces it\n");
  EXPECT_EQ(text_of(path("copy")), old);
  EXPECT_EQ(run({"cp", "data", "copy", "--force"}).exit_code, 0);
  EXPECT_EQ(text_of(path("copy")), bytes);
}

TEST_F(Tool, CpRefusesToCopyAFileOntoItself) {
  const std::string bytes = make("data", 5000);
  fs::create_hard_link(path("data"), path("link"));
  fs::create_symlink("data", path("symlink"));
  for (const char* name : {"data", "link", "symlink", "."}) {
    const Finished done = run({"cp", "data", name, "--force"});
    EXPECT_EQ(done.exit_code, 1) << name;
    EXPECT_NE(done.err.find("are the same file"), std::string::npos) << done.err;
  }
  EXPECT_EQ(text_of(path("data")), bytes);
}

TEST_F(Tool, CpThatRunsOutOfRoomLeavesNothing) {
  make("data", 3 << 20);
  const Finished done = run({"cp", "data", "copy"}, [] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
  });
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_TRUE(said(done).starts_with("penstock: copy: could not ")) << done.err;
  EXPECT_EQ(folder(), Names{"data"});
}

TEST_F(Tool, CpOfAFileThatEndsBeforeItsSizeLeavesNothing) {
  // A file of sysfs claims a page and holds a line, like a file that is truncated under the copy.
  const std::string source = "/sys/kernel/mm/transparent_hugepage/enabled";
  if (!fs::exists(source)) GTEST_SKIP() << "this kernel has no " << source;
  const Finished done = run({"cp", source, "copy"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_TRUE(said(done).starts_with("penstock: " + source + ": it became shorter while it was read")) << done.err;
  EXPECT_EQ(folder(), Names{});
}

TEST_F(Tool, CpOfAFileThatGrowsMeanwhileLeavesNothing) {
  make("data", 16 << 20);
  const Finished done = run_disturbed({"cp", "data", "copy", "--window", "8k"},
                                      [&](pid_t) { std::ofstream(path("data"), std::ios::app) << "more"; });
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.err.find("it changed while it was copied"), std::string::npos) << done.err;
  EXPECT_EQ(folder(), Names{"data"});
}

TEST_F(Tool, CpThatIsInterruptedLeavesNothingAndDiesOfTheSignal) {
  make("data", 64 << 20);
  const Finished done =
      run_disturbed({"cp", "data", "copy", "--window", "8k"}, [](pid_t child) { kill(child, SIGINT); });
  EXPECT_EQ(done.signal_number, SIGINT) << done.err;
  EXPECT_EQ(said(done), "penstock: interrupted\n");
  EXPECT_EQ(folder(), Names{"data"});
}

// NVIDIA's library opens files by their names: with it the copy has one from the start.
class CpByVendor : public Tool {
 protected:
  static constexpr std::size_t kBytes = 16 << 20;

  void SetUp() override {
    make("data", kBytes);
    const int fd = open(path("data").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd < 0) GTEST_SKIP() << "no O_DIRECT in the working directory";
    close(fd);
  }
  static void by_vendor() {
    setenv("PENSTOCK_DEVICE", "cuda", 1);
    setenv("LD_LIBRARY_PATH", PENSTOCK_FAKE_LIBCUDA, 1);
    setenv("PENSTOCK_VENDOR", "force", 1);
    setenv("PENSTOCK_VENDOR_LIBRARY", PENSTOCK_FAKE_VENDOR, 1);
    setenv("PENSTOCK_PATHS", "vendor,bounce", 1);
  }
  // Once it has a name: its mode.
  mode_t wait_for_copy() {
    struct stat facts {};
    const auto is_copy = [&](const std::string& name) {
      return name.starts_with(".penstock-") && !name.starts_with(".penstock-scratch-") && name.size() == 42 &&
             stat(path(name).c_str(), &facts) == 0;
    };
    EXPECT_TRUE(wait_until([&] {
      const std::vector<std::string> names = folder();
      return std::any_of(names.begin(), names.end(), is_copy);
    }));
    return facts.st_mode;
  }
};

TEST_F(CpByVendor, GoesItsWayBothWays) {
  make("data", 3'000'001);
  for (const char* more : {"--json", "--direct"}) {
    const Finished done = run({"cp", "data", "copy", "--json", "--verify", "--force", more}, by_vendor);
    ASSERT_EQ(done.exit_code, 0) << done.err;
    const json told = json::parse(done.out);
    for (const char* way : {"read", "written"}) {
      ASSERT_EQ(told[way]["paths"].size(), 1u) << told;
      EXPECT_EQ(told[way]["paths"][0]["path"], "vendor") << told;
    }
    EXPECT_TRUE(text_of(path("copy")) == text_of(path("data")));
    EXPECT_EQ(folder(), (Names{"copy", "data"}));
  }
}

TEST_F(CpByVendor, WithoutItTheCopyHasNoNameUntilItIsWhole) {
  const auto without = [] { by_vendor(), setenv("PENSTOCK_VENDOR", "off", 1); };
  run_disturbed(
      {"cp", "data", "copy", "--window", "8k"}, [](pid_t child) { kill(child, SIGKILL); }, without);
  for (const std::string& name : folder()) EXPECT_TRUE(name == "data" || name == "copy") << name;
}

TEST_F(CpByVendor, ItsNameIsForItsOwnerAloneAndGoesWithAnInterruption) {
  for (const int signals : {1, 2}) {
    const pid_t child = start({"cp", "data", "copy", "--window", "8k"}, by_vendor);
    EXPECT_EQ(wait_for_copy() & 07777, 0600u);
    for (int i = 0; i < signals; ++i) kill(child, SIGINT);
    const Finished done = wait(child);
    EXPECT_TRUE(done.signal_number == SIGINT || done.exit_code == 128 + SIGINT) << done.err;
    EXPECT_EQ(folder(), Names{"data"});
  }
}

TEST_F(CpByVendor, ItsNameGoesWithAFailure) {
  const pid_t child = start({"cp", "data", "copy", "--window", "8k"}, by_vendor);
  EXPECT_NE(wait_for_copy(), 0u);
  std::ofstream(path("data"), std::ios::app) << "more";
  EXPECT_EQ(wait(child).exit_code, 1);
  EXPECT_EQ(folder(), Names{"data"});
  make("copy", 100);
  EXPECT_EQ(run({"cp", "data", "copy"}, by_vendor).exit_code, 1);
  const auto limited = [] {
    by_vendor();
    const rlimit limit{1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  EXPECT_EQ(run({"cp", "data", "copy", "--force"}, limited).exit_code, 1);
  EXPECT_EQ(folder(), (Names{"copy", "data"}));
}

}  // namespace
}  // namespace penstock::tools
