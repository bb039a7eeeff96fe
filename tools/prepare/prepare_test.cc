// SPDX-License-Identifier: Apache-2.0

// The built `penstock explain --fix` and the part of `penstock explain` that tells what a file lacks.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "fakes/tool_fixture.h"
#include "fakes/waiting.h"

namespace penstock::tools {
namespace {

using nlohmann::json;

class Prepare : public Tool {
 protected:
  // Allocation ahead is what the command is for: without it there is nothing to test.
  void SetUp() override {
    const int fd = open(path("probe").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const bool can = fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 4096) == 0;
    close(fd);
    fs::remove(path("probe"));
    struct statfs facts {};
    statfs(path("").c_str(), &facts);
    if (!can || facts.f_type == 0x01021994) GTEST_SKIP() << "the working directory's file system cannot be prepared";
  }

  std::uint64_t blocks_of(const std::string& name) const {
    struct stat facts {};
    return stat(path(name).c_str(), &facts) == 0 ? static_cast<std::uint64_t>(facts.st_blocks) * 512 : 0;
  }
  json prepare(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"explain", "--fix"});
    arguments.push_back("--json");
    const Finished done = run(arguments);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return json::parse(done.out, nullptr, false);
  }
  std::vector<std::string> lacks_of(const std::string& name) {
    std::vector<std::string> codes;
    const json report = json::parse(run({"explain", name, "--write", "--json"}).out, nullptr, false);
    for (const json& one : report["p2pdma"]["obstacles"]) codes.push_back(one["code"]);
    return codes;
  }
  using Codes = std::vector<std::string>;
};

TEST_F(Prepare, ANewFileIsAllocatedAndHasItsSize) {
  const json done = prepare({"new", "--size", "1234567"});
  EXPECT_EQ(done["existed"], false);
  EXPECT_EQ(fs::file_size(path("new")), 1234567u);
  EXPECT_GE(blocks_of("new"), 1234567u);
  EXPECT_EQ(text_of(path("new")), std::string(1234567, '\0'));
  EXPECT_EQ(folder(), Codes{"new"});
}

TEST_F(Prepare, WhereThereIsNoRoomNothingIsTaken) {
  make("sparse", 4096);
  struct statfs facts {};
  ASSERT_EQ(statfs(path("").c_str(), &facts), 0);
  const std::uint64_t more = (facts.f_bavail + 1024 * 1024) * static_cast<std::uint64_t>(facts.f_bsize);
  if (truncate(path("sparse").c_str(), static_cast<off_t>(more)) != 0) GTEST_SKIP() << "no file may be that large here";
  const std::uint64_t before = blocks_of("sparse");
  const Finished done = run({"explain", "--fix", "sparse"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.err.find("more and the file system has"), std::string::npos) << done.err;
  EXPECT_EQ(blocks_of("sparse"), before);
}

TEST_F(Prepare, WrittenLeavesNothingToConvert) {
  EXPECT_EQ(prepare({"new", "--size", "9M", "--written"})["zeros_written"], 9u << 20);
  EXPECT_EQ(fs::file_size(path("new")), 9u << 20);
  EXPECT_EQ(lacks_of("new"), Codes{});
  EXPECT_EQ(prepare({"new", "--written"})["zeros_written"], 0u);
}

TEST_F(Prepare, ExplainNamesWhatAFileLacksAndTheCommand) {
  make("data", 4096);
  fs::resize_file(path("data"), 1 << 20);
  EXPECT_EQ(lacks_of("data"), Codes{"holes"});
  EXPECT_NE(run({"explain", "data", "-v"}).out.find("'penstock explain --fix'"), std::string::npos);
  prepare({"data"});
  EXPECT_EQ(lacks_of("data"), Codes{"unwritten_extents"});
  prepare({"data", "--written"});
  EXPECT_EQ(lacks_of("data"), Codes{});
}

TEST_F(Prepare, AnExistingFileKeepsEveryByte) {
  const std::string bytes = make("data", 300000);
  const int fd = open(path("data").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(pwrite(fd, "island", 6, 3 << 20), 6);
  close(fd);
  const std::string before = text_of(path("data"));
  prepare({"data"});
  EXPECT_EQ(text_of(path("data")), before);
  prepare({"data", "--size", "5M"});
  EXPECT_EQ(text_of(path("data")), before + std::string((5 << 20) - before.size(), '\0'));
  prepare({"data", "--size", "7000001", "--written"});
  EXPECT_EQ(text_of(path("data")), before + std::string(7000001 - before.size(), '\0'));
}

TEST_F(Prepare, AFailureLeavesWhatWasThere) {
  const std::string bytes = make("data", 300000);
  const auto limited = [] {
    const rlimit limit{1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  for (const char* written : {"--json", "--written"}) {
    EXPECT_EQ(run({"explain", "--fix", "data", "--size", "2M", written}, limited).exit_code, 1);
    EXPECT_EQ(run({"explain", "--fix", "new", "--size", "2M", written}, limited).exit_code, 1);
  }
  EXPECT_EQ(text_of(path("data")), bytes);
  EXPECT_EQ(folder(), Codes{"data"});
}

TEST_F(Prepare, HolesThatWereFilledBeforeAFailureStayAndItSaysSo) {
  const std::string bytes = make("data", 300000);
  fs::resize_file(path("data"), 4 << 20);
  const std::string before = text_of(path("data"));
  const auto limited = [] {
    const rlimit limit{1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  const Finished done = run({"explain", "--fix", "data", "--written"}, limited);
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.err.find("its bytes and its size are unchanged, and it has "), std::string::npos) << done.err;
  EXPECT_TRUE(text_of(path("data")) == before);
  EXPECT_NE(run({"explain", "--fix", "--help"}).out.find("kill -9"), std::string::npos);
}

TEST_F(Prepare, AFileThatOthersHaveOpenIsLeftAlone) {
  const std::string bytes = make("data", 10000);
  const int fd = open(path("data").c_str(), O_RDWR | O_CLOEXEC);
  const Finished done = run({"explain", "--fix", "data", "--size", "1M"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.err.find("another program has it open"), std::string::npos) << done.err;
  close(fd);
  EXPECT_EQ(text_of(path("data")), bytes);
}

// Somebody opens the file while zeros are written past its old end.
class PrepareInterfered : public Prepare {
 protected:
  static constexpr std::uint64_t kOldSize = 1 << 20;

  void SetUp() override {
    Prepare::SetUp();
    struct statfs facts {};
    if (IsSkipped() || statfs(path("").c_str(), &facts) != 0) return;
    if (facts.f_bavail * static_cast<std::uint64_t>(facts.f_bsize) < 2ull << 30) GTEST_SKIP() << "less than 2 GiB free";
    bytes_ = make("data", kOldSize);
  }

  std::uint64_t size_now() const { return fs::file_size(path("data")); }
  static bool somebody_waits_for_a_lease() { return text_of("/proc/locks").find(" BREAKING ") != std::string::npos; }

  // Stops the command for as long as it takes somebody to come.
  Finished run_interfered(
      int flags, const std::function<void()>& prepare = [] {}) {
    const pid_t child = start({"explain", "--fix", "data", "--size", "1G", "--written"}, prepare);
    EXPECT_TRUE(wait_until([&] { return size_now() > kOldSize; }));
    kill(child, SIGSTOP);
    std::thread other([&] {
      const int fd = open(path("data").c_str(), flags | O_CLOEXEC);
      struct stat facts {};
      seen_ = fstat(fd, &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : 0;
      close(fd);
    });
    EXPECT_TRUE(wait_until(somebody_waits_for_a_lease));
    kill(child, SIGCONT);
    const Finished done = wait(child);
    other.join();
    return done;
  }

  std::string bytes_;
  std::uint64_t seen_ = 0;  // The file's size, as the other saw it first.
};

TEST_F(PrepareInterfered, WhoOpensTheFileMeanwhileGetsItAsItWas) {
  for (const int flags : {O_RDWR, O_RDONLY}) {
    const Finished done = run_interfered(flags);
    EXPECT_EQ(done.exit_code, 1);
    EXPECT_NE(done.err.find("data: another program wants to open it, so the command stopped; run it again"),
              std::string::npos)
        << done.err;
    EXPECT_EQ(seen_, kOldSize);
    EXPECT_TRUE(text_of(path("data")) == bytes_);
  }
}

// The other program may have waited for longer than the kernel lets it: the time it waits cannot be known there.
TEST_F(PrepareInterfered, WhereTheOtherMayHaveItOpenItIsNotCutBackAndThatIsSaid) {
  const auto without_the_time = [] {
    const unsigned user = geteuid() == 0 ? 0 : CLONE_NEWUSER;
    if (unshare(static_cast<int>(CLONE_NEWNS | user)) != 0) return;
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return;
    mount("none", "/proc/sys/fs", "tmpfs", 0, nullptr);
  };
  if (run({"check"}, [&] { without_the_time(), _exit(access("/proc/sys/fs/lease-break-time", F_OK) == 0); }).exit_code)
    GTEST_SKIP() << "no mount namespaces here";
  const Finished done = run_interfered(O_RDWR, without_the_time);
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_GT(size_now(), kOldSize);
  EXPECT_NE(done.err.find("so it was not cut back: it was 1048576 bytes long and is " + std::to_string(size_now()) +
                          " now, with zeros in what was added, and has "),
            std::string::npos)
      << done.err;
  EXPECT_TRUE(text_of(path("data")) == bytes_ + std::string(size_now() - kOldSize, '\0'));
}

TEST_F(Prepare, WhatItCannotDoIsSaidWithItsReason) {
  make("data", 10000);
  struct Case {
    std::vector<std::string> arguments;
    int exit_code;
    const char* words;
  };
  const Case cases[] = {{{"explain", "--fix", "data", "--size", "4k"}, 2, "no file shorter"},
                        {{"explain", "--fix", "absent"}, 2, "--size"},
                        {{"explain", "--fix", "data", "--size", "-1"}, 2, "not a size"},
                        {{"explain", "--fix", "absent/new", "--size", "4k"}, 1, "No such file"},
                        {{"explain", "--fix", ".", "--size", "4k"}, 1, "directory"}};
  for (const Case& one : cases) {
    const Finished done = run(one.arguments);
    EXPECT_EQ(done.exit_code, one.exit_code) << done.err;
    EXPECT_NE(done.err.find(one.words), std::string::npos) << done.err;
  }
  EXPECT_EQ(folder(), Codes{"data"});
}

TEST_F(Tool, PrepareRefusesMemoryWithTheReason) {
  if (!fs::exists("/dev/shm")) GTEST_SKIP() << "there is no /dev/shm";
  const std::string name = "/dev/shm/penstock-prepare-" + std::to_string(getpid());
  const Finished done = run({"explain", "--fix", name, "--size", "4k", "--json"});
  EXPECT_EQ(done.exit_code, 77) << done.err;
  EXPECT_NE(done.err.find("(memory)"), std::string::npos) << done.err;
  EXPECT_FALSE(fs::exists(name));
}

// ---- A captured machine

std::string machine(const std::string& name) { return PENSTOCK_MACHINES + name; }

TEST_F(Tool, ExplainTellsOfACapturedMachinesFile) {
  const Finished done = run({"explain", "--root", machine("md-tcp-leg"), "--json", "/scratch/a/../b"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const json report = json::parse(done.out, nullptr, false);
  EXPECT_EQ(report["file"]["mount"]["point"], "/scratch");
  ASSERT_EQ(report["p2pdma"]["routes"].size(), 1u);
  EXPECT_EQ(report["p2pdma"]["routes"][0]["possible"], false);
  EXPECT_EQ(report["p2pdma"]["routes"][0]["obstacles"][1]["code"], "nvme_tcp");
  EXPECT_EQ(report["p2pdma"]["routes"][0]["obstacles"][1]["subject"], "nvme5n1");
  EXPECT_NE(run({"explain", "-v", "--root", machine("dgx-ready"), "/dev/nvme2n1"}).out.find("nothing"),
            std::string::npos);
}

TEST_F(Tool, ExplainOfACapturedMachineNeedsItsPaths) {
  EXPECT_EQ(run({"explain", "--root", machine("dgx-ready"), "relative"}).exit_code, 2);
  EXPECT_EQ(run({"explain", "--root", "/no/such/machine", "/file"}).exit_code, 2);
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--gpu", "9"},
                                               {"--offset", "4k"},
                                               {"--size", "1M"},
                                               {"--memory", "host"},
                                               {"--direct"}}) {
    std::vector<std::string> arguments = {"explain", "--root", machine("dgx-ready"), "/dev/nvme2n1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished done = run(arguments);
    EXPECT_EQ(done.exit_code, 2) << more[0];
    EXPECT_NE(done.err.find(more[0]), std::string::npos) << done.err;
  }
  fs::create_directories(path("empty/proc"));
  EXPECT_EQ(run({"explain", "--root", path("empty"), "/file"}).exit_code, 1);
}

}  // namespace
}  // namespace penstock::tools
