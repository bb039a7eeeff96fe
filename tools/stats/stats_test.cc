// SPDX-License-Identifier: Apache-2.0

// `penstock stats` and gds_stats from outside: another process moves bytes through the library, and is looked at while
// it lives, while it is watched, and after it was killed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cufile.h"
#include "fakes/cufile_session.h"
#include "fakes/prometheus_check.h"
#include "stats/layout.h"
#include "stats/look_budget.h"
#include "stats/process_stats.h"

namespace penstock::tools {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kPatience{60};

struct Finished {
  int exit_code = -1;
  std::string out;
  std::string err;
};

using OnText = std::function<void(const std::string& so_far)>;

std::string drain(
    int fd, const OnText& on_text = [](const std::string&) {}) {
  std::string text;
  char part[4096];
  for (ssize_t size = ::read(fd, part, sizeof part); size > 0; size = ::read(fd, part, sizeof part)) {
    text.append(part, static_cast<std::size_t>(size));
    on_text(text);
  }
  ::close(fd);
  return text;
}

Finished run(
    std::vector<std::string> arguments, const OnText& on_text = [](const std::string&) {}) {
  int out[2], err[2];
  EXPECT_EQ(::pipe2(out, O_CLOEXEC) + ::pipe2(err, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    arguments.insert(arguments.begin(), PENSTOCK_TOOL);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::alarm(static_cast<unsigned>(kPatience.count()));  // A tool that hangs ends in a signal.
    ::execv(PENSTOCK_TOOL, argv.data());
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  Finished finished;
  finished.out = drain(out[0], on_text);
  finished.err = drain(err[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status)) finished.exit_code = WEXITSTATUS(status);
  return finished;
}

// A process that has done its work, and lives on until it is ended.
class Worker {
 public:
  explicit Worker(const std::function<void()>& work) {
    int ready[2];
    EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::setenv("PENSTOCK_DEVICE", "host", 1);
      work();
      (void)!::write(ready[1], "r", 1);
      while (true) ::pause();
    }
    ::close(ready[1]);
    char letter = 0;
    EXPECT_EQ(::read(ready[0], &letter, 1), 1) << "the worker did not get ready";
    ::close(ready[0]);
  }
  ~Worker() { end(SIGKILL); }
  void end(int signal_number) {
    if (pid_ == 0) return;
    ::kill(pid_, signal_number);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }
  std::string name() const { return std::to_string(pid_); }

 private:
  pid_t pid_ = 0;
};

int temporary_file() {
  std::string name = testing::TempDir() + "penstock-stats-XXXXXX";
  const int fd = ::mkstemp(name.data());
  ::unlink(name.c_str());
  return fd;
}

// Through the additive interface: writes of 5,000 bytes of host memory.
void write_five_thousand(int times) {
  penstock_session* session = nullptr;
  if (penstock_session_open(nullptr, &session).code != 0) ::_exit(3);
  penstock_file* file = nullptr;
  if (penstock_file_register(session, temporary_file(), &file).code != 0) ::_exit(4);
  const std::vector<char> bytes(5000, 'x');
  for (int i = 0; i < times; ++i) {
    if (penstock_write(file, bytes.data(), bytes.size(), 0, 0, nullptr).code != 0) ::_exit(5);
  }
}

// Through cuFile at a level: 4 writes of 64 KiB and 2 reads of 4 KiB between a file and device memory.
void move_with_cufile(int level) {
  if (cuFileDriverOpen().err != CU_FILE_SUCCESS) ::_exit(3);
  if (cuFileSetStatsLevel(level).err != CU_FILE_SUCCESS || cuFileStatsStart().err != CU_FILE_SUCCESS) ::_exit(4);
  CUfileDescr_t descr{};
  descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  descr.handle.fd = temporary_file();
  CUfileHandle_t handle = nullptr;
  void* memory = nullptr;
  if (cuFileHandleRegister(&handle, &descr).err != CU_FILE_SUCCESS) ::_exit(5);
  if (penstock_device_alloc(penstock::cufile_session(), 0, 1 << 16, &memory).code != 0) ::_exit(6);
  for (int i = 0; i < 4; ++i) {
    if (cuFileWrite(handle, memory, 1 << 16, 0, 0) != 1 << 16) ::_exit(7);
  }
  for (int i = 0; i < 2; ++i) {
    if (cuFileRead(handle, memory, 4096, 0, 0) != 4096) ::_exit(8);
  }
}

TEST(StatsTest, TellsWhatAnotherProcessMovedAndHow) {
  const Worker worker([] { write_five_thousand(3); });

  const Finished done = run({"stats", worker.name()});

  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.out.find("host"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("write"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("14.65 KiB"), std::string::npos) << done.out;
}

// Through a descriptor with O_DIRECT, from memory that suits it: 8 writes of 64 KiB, 4 of which are through another
// file and the page cache.
void write_both_ways(const std::string& name) {
  penstock_session* session = nullptr;
  if (penstock_session_open(nullptr, &session).code != 0) ::_exit(3);
  void* memory = nullptr;
  if (::posix_memalign(&memory, 4096, 1 << 16) != 0) ::_exit(4);
  std::memset(memory, 'x', 1 << 16);
  for (const int flags : {O_DIRECT, 0}) {
    const int fd = ::open((name + (flags == 0 ? "-buffered" : "-direct")).c_str(), O_RDWR | O_CREAT | flags, 0600);
    penstock_file* file = nullptr;
    if (fd < 0 || penstock_file_register(session, fd, &file).code != 0) ::_exit(5);
    for (int i = 0; i < 4; ++i) {
      if (penstock_write(file, memory, 1 << 16, i << 16, 0, nullptr).code != 0) ::_exit(6);
    }
  }
}

TEST(StatsTest, SaysWhatOfAJobsBytesWasDirectAndWhichFilesItHasOpen) {
  const std::string name = std::filesystem::canonical(".").string() + "/penstock-job-" + std::to_string(::getpid());
  const int probe = ::open((name + "-direct").c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600);
  if (probe < 0) GTEST_SKIP() << "no direct I/O here";
  ::close(probe);
  const Worker worker([&] { write_both_ways(name); });

  const Finished done = run({"stats", worker.name(), "--odirect", "--json"});
  const std::string text = run({"stats", worker.name(), "--odirect"}).out;
  ::unlink((name + "-direct").c_str());
  ::unlink((name + "-buffered").c_str());

  ASSERT_EQ(done.exit_code, 0) << done.err;
  const json told = json::parse(done.out);
  EXPECT_EQ(told["write"]["bytes"], 8 << 16);
  EXPECT_EQ(told["write"]["direct_bytes"], 4 << 16);
  EXPECT_EQ(told["read"]["bytes"], 0);
  unsigned seen = 0;
  for (const json& file : told["files"]) {
    const std::string path = file["path"];
    if (path == name + "-direct") seen += file["direct_descriptors"] > 0 ? 1 : 0;
    if (path == name + "-buffered") seen += file["buffered_descriptors"] > 0 ? 1 : 0;
  }
  EXPECT_EQ(seen, 2u) << done.out;
  EXPECT_NE(text.find("512 KiB written: 50.0 % by O_DIRECT"), std::string::npos) << text;
}

TEST(StatsTest, OfAJobWithoutASessionTheKernelsCountAndTheFilesAreTold) {
  const Worker worker([] { (void)temporary_file(); });

  const Finished done = run({"stats", worker.name(), "--odirect"});

  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.out.find("It has no session of the library."), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("by the kernel's count"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("penstock-stats-"), std::string::npos) << done.out;
  EXPECT_EQ(run({"stats", "--odirect"}).exit_code, 2);
  EXPECT_EQ(run({"stats", worker.name(), "--odirect", "--watch"}).exit_code, 2);
}

TEST(StatsTest, TellsProgramsTheSame) {
  const Worker worker([] { write_five_thousand(3); });

  const Finished done = run({"stats", worker.name(), "--json"});

  const json told = json::parse(done.out);
  EXPECT_EQ(told["pid"], worker.pid());
  ASSERT_EQ(told["sessions"].size(), 1u);
  const json& way = told["sessions"][0]["ways"].at(0);
  EXPECT_EQ(way["path"], "host");
  EXPECT_EQ(way["op"], "write");
  EXPECT_EQ(way["bytes"], 15000);
  EXPECT_EQ(way["operations"], 3);
}

TEST(StatsTest, WithoutAPidEveryProcessWithASessionIsListed) {
  const Worker first([] { write_five_thousand(1); });
  const Worker second([] { write_five_thousand(2); });

  const json told = json::parse(run({"stats", "--json"}).out);

  const auto listed = [&](pid_t pid) {
    return std::any_of(told["processes"].begin(), told["processes"].end(),
                       [&](const json& process) { return process["pid"] == pid; });
  };
  EXPECT_TRUE(listed(first.pid()));
  EXPECT_TRUE(listed(second.pid()));
  EXPECT_NE(run({"stats"}).out.find(second.name()), std::string::npos);
}

TEST(StatsTest, PrometheusReadsIt) {
  const Worker worker([] { move_with_cufile(1); });

  const Finished done = run({"stats", worker.name(), "--prometheus"});

  EXPECT_EQ(done.exit_code, 0) << done.err;
  const PrometheusPage page = parse_prometheus(done.out);
  EXPECT_EQ(page.faults, std::vector<std::string>{}) << done.out;
  double bytes = 0;
  for (const auto& [name, value] : page.values) {
    if (name.starts_with("penstock_bytes_total{pid=\"" + worker.name() + "\"")) bytes += value;
  }
  EXPECT_EQ(bytes, 4 * 65536 + 2 * 4096);
}

TEST(StatsTest, NothingIsLeftOfAProcessThatWasKilled) {
  Worker worker([] { write_five_thousand(1); });
  const std::string pid = worker.name();
  ASSERT_EQ(run({"stats", pid}).exit_code, 0);

  worker.end(SIGKILL);

  const Finished done = run({"stats", pid});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.err.find("there is no process " + pid), std::string::npos) << done.err;
  const json told = json::parse(run({"stats", "--json"}).out);
  for (const json& process : told["processes"]) EXPECT_NE(process["pid"].dump(), pid);
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    EXPECT_EQ(entry.path().string().find("penstock"), std::string::npos) << entry.path();
  }
}

TEST(StatsTest, AProcessWithoutASessionIsNotApplicable) {
  const Worker worker([] {});

  const Finished done = run({"stats", worker.name()});

  EXPECT_EQ(done.exit_code, 77);
  EXPECT_NE(done.err.find("no session of it open"), std::string::npos) << done.err;
}

TEST(StatsTest, AProcessOfAnotherUserIsNotOursToLookAt) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  const Worker worker([] { write_five_thousand(1); });
  int result[2];
  ASSERT_EQ(::pipe2(result, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(2);
    const core::Status status = core::stats_of_process(worker.pid()).status();
    ::_exit(status.is_errno(EACCES) ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(StatsTest, WhatALookLeavesOutForItsLimitIsSaid) {
  const Worker worker([] {
    write_five_thousand(1);
    for (int i = 0; i < 300; ++i) (void)::memfd_create(core::kStatsName, MFD_CLOEXEC);
  });
  const std::string wanted =
      std::to_string(301 - core::kProcessLimits.segments) + " of its segments were not read, since one look has limits";

  EXPECT_NE(run({"stats", worker.name()}).out.find(wanted), std::string::npos);
  EXPECT_NE(run({"stats"}).out.find(wanted), std::string::npos);
  const json told = json::parse(run({"stats", worker.name(), "--json"}).out);
  EXPECT_NE(told["refused"].get<std::string>().find(wanted), std::string::npos) << told;
}

TEST(StatsTest, WatchingEndsWithTheProcess) {
  Worker worker([] { write_five_thousand(1); });
  const std::string pid = worker.name();
  const auto end_after_two_lines = [&](const std::string& so_far) {
    if (std::count(so_far.begin(), so_far.end(), '\n') >= 2) worker.end(SIGKILL);
  };

  const Finished done = run({"stats", pid, "--watch", "--interval", "0.05", "--json"}, end_after_two_lines);

  EXPECT_EQ(done.exit_code, 0) << done.err;
  const std::size_t second = done.out.find('\n') + 1;
  const json at_first = json::parse(done.out.substr(0, second));
  const json then = json::parse(done.out.substr(second, done.out.find('\n', second) - second));
  EXPECT_EQ(at_first["pid"].dump(), pid);
  EXPECT_TRUE(at_first["interrupts_per_second"].is_null());
  EXPECT_TRUE(then["interrupts_per_second"].is_number()) << then;
  EXPECT_TRUE(then.contains("interrupts_per_gb") && then["interrupts_per_gb"].is_null()) << "nothing moved: " << then;
  EXPECT_TRUE(then.contains("nvidia_fs"));
}

TEST(StatsTest, WrongUsageIsRefused) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"stats", "-1"},
                                             {"stats", "0"},
                                             {"stats", "fish"},
                                             {"stats", "--watch"},
                                             {"stats", "1", "--json", "--prometheus"},
                                             {"stats", "1", "--watch", "--prometheus"},
                                             {"stats", "1", "--watch", "--interval", "0"},
                                             {"stats", "1", "--watch", "--interval", "nan"}}) {
    EXPECT_EQ(run(arguments).exit_code, 2) << arguments.back();
  }
}

class GdsStats : public testing::Test {
 protected:
  Finished gds_stats(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "gds_stats");
    return run(std::move(arguments));
  }
};

TEST_F(GdsStats, ReadsARunningProcess) {
  const Worker worker([] { move_with_cufile(3); });

  const Finished done = gds_stats({"-p", worker.name(), "-l", "3"});

  EXPECT_EQ(done.exit_code, 0) << done.err;
  for (const char* const line :
       {"cuFile STATS VERSION : 8\n", "\nRead: ok = 2 err = 0\n", "\nWrite: ok = 4 err = 0\n",
        "\nHandleRegister: ok = 1 err = 0\n", "\n4-8(KiB): 2 0\n", "\n64-128(KiB): 0 4\n", "\nPER_GPU STATS:\n"}) {
    EXPECT_NE(done.out.find(line), std::string::npos) << line << "is missing in\n" << done.out;
  }
}

TEST_F(GdsStats, ALevelThatIsNotCountedIsRefusedWithARemedy) {
  const Worker worker([] { move_with_cufile(1); });

  EXPECT_EQ(gds_stats({"-p", worker.name()}).exit_code, 0);
  const Finished done = gds_stats({"-p", worker.name(), "-l", "2"});

  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.err.find("profile.cufile_stats"), std::string::npos) << done.err;
}

TEST_F(GdsStats, WrongUsageIsRefused) {
  EXPECT_EQ(gds_stats({}).exit_code, 2);
  EXPECT_EQ(gds_stats({"-p", "0"}).exit_code, 2);
  EXPECT_EQ(gds_stats({"-p", "1", "-l", "4"}).exit_code, 2);
  EXPECT_EQ(gds_stats({"-p", "999999999"}).exit_code, 1);
}

}  // namespace
}  // namespace penstock::tools
