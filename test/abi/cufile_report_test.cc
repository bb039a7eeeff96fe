// SPDX-License-Identifier: Apache-2.0

// PENSTOCK_REPORT from a user's view: programs that end in every possible way.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fakes/waiting.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Words = std::vector<std::string>;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class ReportTest : public testing::Test {
 protected:
  ReportTest() {
    std::string name = fs::current_path() / "penstock-report-XXXXXX";
    root_ = mkdtemp(name.data());
    std::ofstream(path("data")) << std::string(3 << 20, 'd');
  }
  ~ReportTest() override { fs::remove_all(root_); }

  fs::path path(const std::string& name) const { return root_ / name; }
  std::string data() const { return "read:" + path("data").string(); }

  // Starts the program with the library preloaded and PENSTOCK_REPORT set; `prepare` runs in the child.
  pid_t start(
      const std::string& report, const Words& words, const std::function<void()>& prepare = [] {}) {
    const pid_t child = fork();
    if (child != 0) return child;
    if (chdir(root_.c_str()) != 0) _exit(98);
    dup2(open("stdout", O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    dup2(open("stderr", O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    setenv("LD_PRELOAD", PENSTOCK_LIBCUFILE, 1);
    setenv("PENSTOCK_DEVICE", "host", 1);
    setenv("CUFILE_LOGFILE_PATH", path("log").c_str(), 1);
    setenv("PENSTOCK_REPORT", report.c_str(), 1);
    std::vector<char*> argv{const_cast<char*>(PENSTOCK_CLIENT)};
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    prepare();
    execv(argv[0], argv.data());
    _exit(97);
  }
  // Returns its exit code, or 128 plus the signal that ended it.
  int run(
      const std::string& report, const Words& words, const std::function<void()>& prepare = [] {}) {
    int status = 0;
    waitpid(start(report, words, prepare), &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  json report() const { return json::parse(text_of(path("r.json")), nullptr, false); }

  fs::path root_;
};

TEST_F(ReportTest, AProgramThatNeverClosesTheDriverTellsAtItsExitAndWritesNothingElse) {
  EXPECT_EQ(run("stderr", {data(), "exit:5"}), 5);

  const std::string printed = text_of(path("stderr"));
  EXPECT_TRUE(has(printed, "3.00 MiB read and 0 B written in 1 requests\n")) << printed;
  EXPECT_TRUE(has(printed, "by host")) << printed;
  EXPECT_TRUE(has(printed, path("data").string() + "\n")) << printed;
  EXPECT_TRUE(has(printed, PENSTOCK_LIBCUFILE)) << printed;
  EXPECT_EQ(text_of(path("stdout")), "");
  EXPECT_FALSE(fs::exists(path("log")));
}

TEST_F(ReportTest, AFileIsJsonWhereItsNameSaysSoAndIsItsOwnersAlone) {
  umask(0);
  EXPECT_EQ(run("r.json", {data(), "write:out", "batch:" + path("data").string(), "close"}), 0);

  const json document = report();
  EXPECT_EQ(document["sessions"], 1);
  EXPECT_EQ(document["sessions_open"], 0);
  EXPECT_EQ(document["all"]["read_bytes"], 6 << 20);
  EXPECT_EQ(document["all"]["written_bytes"], 1 << 20);
  EXPECT_EQ(document["all"]["requests"], 3);
  EXPECT_EQ(document["files"].size(), 2u);
  EXPECT_GT(document["busy_seconds"], 0.0);
  EXPECT_LE(document["busy_seconds"], document["seconds"]);
  struct stat facts {};
  ASSERT_EQ(stat(path("r.json").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST_F(ReportTest, WithoutAWishNothingIsTold) {
  EXPECT_EQ(run("", {data()}), 0);

  EXPECT_EQ(text_of(path("stderr")), "");
}

TEST_F(ReportTest, ADriverThatIsOpenedAgainAddsToTheSameReport) {
  EXPECT_EQ(run("r.json", {data(), "close", data(), "close", data()}), 0);

  EXPECT_EQ(report()["sessions"], 3);
  EXPECT_EQ(report()["all"]["read_bytes"], 9 << 20);
  EXPECT_EQ(report()["ways"][0]["bytes"], 9 << 20);
  EXPECT_EQ(report()["files"].size(), 1u);
}

TEST_F(ReportTest, ADriverThatWasOpenedInVainIsSaid) {
  EXPECT_EQ(run("stderr", {"open"}), 0);

  EXPECT_TRUE(has(text_of(path("stderr")), "and asked it for no byte\n")) << text_of(path("stderr"));
}

TEST_F(ReportTest, RequestsThatFailAreCounted) {
  EXPECT_EQ(run("r.json", {data(), "beyond:data"}), 0);

  EXPECT_EQ(report()["all"]["failed"], 1);
  EXPECT_EQ(report()["all"]["requests"], 2);
}

TEST_F(ReportTest, EachProcessOfAFamilyHasItsOwnFile) {
  EXPECT_EQ(run("r-%p.json", {data(), "fork", data(), data()}), 0);

  std::vector<std::uint64_t> bytes;
  for (const auto& entry : fs::directory_iterator(root_)) {
    if (!entry.path().filename().string().starts_with("r-")) continue;
    const json document = json::parse(text_of(entry.path()));
    EXPECT_EQ(entry.path().filename(), "r-" + std::to_string(document["pid"].get<int>()) + ".json");
    bytes.push_back(document["all"]["read_bytes"]);
  }
  std::sort(bytes.begin(), bytes.end());
  EXPECT_EQ(bytes, (std::vector<std::uint64_t>{3 << 20, 6 << 20})) << "the child told of its parent's, or not at all";
}

TEST_F(ReportTest, ADaemonTellsWhereItWasStartedThoughItsParentIsLongGone) {
  EXPECT_EQ(run("r.json", {"daemon", data()}), 0);

  EXPECT_TRUE(wait_until([&] { return fs::exists(path("r.json")); }));
  EXPECT_EQ(report()["all"]["read_bytes"], 3 << 20);
}

TEST_F(ReportTest, WhoIsEndedByASignalOrByUnderscoreExitTellsWhatStoodAtTheLastClose) {
  EXPECT_EQ(run("killed.json", {data(), "kill:9"}), 128 + SIGKILL);
  EXPECT_EQ(run("closed.json", {data(), "close", data(), "_exit:0"}), 0);

  EXPECT_FALSE(fs::exists(path("killed.json")));
  EXPECT_EQ(json::parse(text_of(path("closed.json")))["all"]["read_bytes"], 3 << 20);
}

TEST_F(ReportTest, WhatCannotBeWrittenIsLoggedAndDisturbsNothing) {
  std::ofstream(path("locked")) << "there before";
  fs::create_directory(path("folder"));
  for (const char* target : {"missing/r.json", "/dev/null", "/proc/r.json", "folder"}) {
    EXPECT_EQ(run(target, {data(), "exit:3"}), 3) << target;
    EXPECT_TRUE(has(text_of(path("log")), std::string(target) + ": ")) << target << "\n" << text_of(path("log"));
  }
  EXPECT_EQ(text_of(path("stderr")), "");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(ReportTest, AFullDiskIsLoggedAndDisturbsNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can mount a disk that is full";
  fs::create_directory(path("full"));

  EXPECT_EQ(run("full/r.json", {data(), "exit:4"},
                [&] {
                  const std::string full = path("full");
                  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
                    _exit(77);
                  if (mount("none", full.c_str(), "tmpfs", 0, "size=4096") != 0) _exit(77);
                  std::ofstream(full + "/filler") << std::string(4096, 'f');
                }),
            4);

  EXPECT_TRUE(has(text_of(path("log")), "full/r.json: ")) << text_of(path("log"));
  EXPECT_TRUE(has(text_of(path("log")), "ENOSPC") || has(text_of(path("log")), "space")) << text_of(path("log"));
}

TEST_F(ReportTest, ALimitOfFilesLeavesNoHalfOfAReportAndWhatWasThere) {
  std::ofstream(path("r.json")) << "there before";

  EXPECT_EQ(run("r.json", {data(), "full", "exit:4"}), 4) << "the signal of the limit ended it";
  EXPECT_EQ(text_of(path("r.json")), "there before");
  for (const auto& entry : fs::directory_iterator(root_)) {
    EXPECT_FALSE(has(entry.path().filename().string(), ".penstock-")) << entry.path();
  }
}

TEST_F(ReportTest, ALinkThatSomebodyLaidIsReplacedAndNotFollowed) {
  std::ofstream(path("precious")) << "kept";
  fs::create_symlink(path("precious"), path("r.json"));

  EXPECT_EQ(run("r.json", {data()}), 0);

  EXPECT_EQ(text_of(path("precious")), "kept");
  EXPECT_FALSE(fs::is_symlink(path("r.json")));
  EXPECT_EQ(report()["all"]["read_bytes"], 3 << 20);
}

TEST_F(ReportTest, NobodyAtTheOtherEndOfStderrEndsNoProgram) {
  EXPECT_EQ(run("stderr", {"deaf", data(), "exit:6"}), 6);
}

TEST_F(ReportTest, AFileThatTookTheNumberOfStderrIsLeftAlone) {
  EXPECT_EQ(run("stderr", {data(), "quiet"}), 0);

  EXPECT_EQ(text_of(path("quiet")), "");
}

TEST_F(ReportTest, ASetUserIdProgramDoesNotListen) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a program to somebody else";
  const fs::path program = path("program");
  fs::copy_file(PENSTOCK_CLIENT, program);
  ASSERT_EQ(chown(program.c_str(), 1, 1), 0);
  fs::permissions(program, fs::perms::set_uid | fs::perms::all);
  fs::permissions(root_, fs::perms::all);

  const pid_t child = start("r.json", {}, [&] {
    unsetenv("LD_PRELOAD");
    const std::string load = std::string("load:") + PENSTOCK_LIBCUFILE, read = data();
    execl(program.c_str(), "program", load.c_str(), read.c_str(), nullptr);
  });
  int status = 0;
  waitpid(child, &status, 0);

  if (status != 0) GTEST_SKIP() << "user 1 may not reach the library: " << text_of(path("stderr"));
  EXPECT_FALSE(fs::exists(path("r.json")));
}

}  // namespace
}  // namespace penstock
