// SPDX-License-Identifier: Apache-2.0

#include "stats/process_stats.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "fakes/manual_clock.h"
#include "stats/counters.h"
#include "stats/layout.h"
#include "stats/look_budget.h"

namespace penstock::core {
namespace {

// A child process that does its work, signals that it is done, and waits until it is killed.
class Other {
 public:
  explicit Other(const std::function<void()>& work) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      work();
      (void)!::write(ready[1], "r", 1);
      while (true) ::pause();
    }
    char letter = 0;
    EXPECT_EQ(::read(ready[0], &letter, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Other() { end(); }
  void end() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

ProcessStats stats_of(pid_t pid) {
  Result<ProcessStats> process = stats_of_process(pid);
  EXPECT_TRUE(process.ok()) << describe(process.status());
  return process.ok() ? std::move(*process) : ProcessStats{};
}

TEST(ProcessStatsTest, AnotherProcessIsReadWhileItCounts) {
  const Other other([] {
    auto* const counters = new Counters;
    counters->add(PathId::host, Reason::none, Op::write, 12345);
  });

  const ProcessStats process = stats_of(other.pid());

  ASSERT_EQ(process.sessions.size(), 1u);
  ASSERT_EQ(process.sessions[0].rows.size(), 1u);
  EXPECT_EQ(process.sessions[0].rows[0].bytes, 12345u);
  EXPECT_EQ(process.sessions[0].pid, other.pid());
}

TEST(ProcessStatsTest, SessionsComeInTheOrderInWhichTheyWereOpened) {
  const Counters first, second;

  const ProcessStats process = stats_of(::getpid());

  ASSERT_EQ(process.sessions.size(), 2u);
  EXPECT_LT(process.sessions[0].opened_ns, process.sessions[1].opened_ns);
  EXPECT_NE(process.sessions[0].id, process.sessions[1].id);
}

TEST(ProcessStatsTest, NothingIsLeftOfAProcessThatWasKilled) {
  Other other([] { new Counters; });
  const pid_t pid = other.pid();
  ASSERT_EQ(stats_of(pid).sessions.size(), 1u);

  other.end();

  EXPECT_TRUE(stats_of_process(pid).status().is_errno(ENOENT));
}

TEST(ProcessStatsTest, AForkedChildNeitherCountsForItsParentNorPassesForIt) {
  Counters counters;
  counters.cufile().choose_level(1);
  counters.cufile().start();
  counters.add(PathId::host, Reason::none, Op::read, 1);

  const Other child([&] {
    counters.add(PathId::host, Reason::none, Op::read, 1000);
    counters.add_latency(PathId::host, Op::read, 1000);
    counters.cufile().add_transfer({.bytes = 1000});
  });

  EXPECT_TRUE(stats_of(child.pid()).sessions.empty());
  EXPECT_EQ(counters.total(PathId::host, Reason::none, Op::read).bytes, 1u);
  EXPECT_EQ(counters.cufile().total().operations(CufileOperation::read).ok, 0u);
}

TEST(ProcessStatsTest, AForkedChildHasSegmentsOfItsOwn) {
  const Counters parents;
  const Other child([] { (new Counters)->add(PathId::host, Reason::none, Op::read, 5); });

  const ProcessStats process = stats_of(child.pid());

  ASSERT_EQ(process.sessions.size(), 1u);
  EXPECT_EQ(process.sessions[0].rows.at(0).bytes, 5u);
}

TEST(ProcessStatsTest, AnImpostorIsRefused) {
  const Other other([] {
    const int bare = ::memfd_create(kStatsName, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    (void)!::ftruncate(bare, 1 << 20);
    const int sealed = ::memfd_create(kStatsName, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    (void)!::ftruncate(sealed, 1 << 20);
    (void)::fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK);
    const int empty = ::memfd_create(kStatsName, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    (void)::fcntl(empty, F_ADD_SEALS, F_SEAL_SHRINK);
    const int huge = ::memfd_create(kStatsName, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    (void)!::ftruncate(huge, off_t{1} << 40);
    (void)::fcntl(huge, F_ADD_SEALS, F_SEAL_SHRINK);
  });

  const ProcessStats process = stats_of(other.pid());

  EXPECT_TRUE(process.sessions.empty());
  EXPECT_EQ(process.refused, 4u);
  EXPECT_TRUE(process.refusal.is(Code::bad_setting));
}

// A segment of this version's form with nothing in it but its header, and holes.
int make_sparse_segment() {
  constexpr off_t kSize = 4 << 20;
  StatsHeader header{};
  std::memcpy(header.magic, kStatsMagic, sizeof header.magic);
  header.version = kStatsVersion;
  header.header_bytes = sizeof header;
  header.segment_bytes = kSize;
  header.pid = ::getpid();
  header.paths = 1;
  header.reasons = 1;
  header.shards = 64;
  header.labels_at = 4096;
  header.shards_at = 8192;
  header.shard_bytes = 32768;
  header.cufile_at = 3 << 20;
  header.cufile_bytes = sizeof(CufileSection);
  const int fd = ::memfd_create(kStatsName, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(::ftruncate(fd, kSize), 0);
  EXPECT_EQ(::pwrite(fd, &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  EXPECT_EQ(::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  return fd;
}

blkcnt_t blocks_of(int fd) {
  struct stat facts {};
  EXPECT_EQ(::fstat(fd, &facts), 0);
  return facts.st_blocks;
}

TEST(ProcessStatsTest, HolesOfASegmentStayHolesWhenItIsRead) {
  const UniqueFd sparse(make_sparse_segment());
  const blkcnt_t before = blocks_of(sparse.get());

  const ProcessStats process = stats_of(::getpid());

  EXPECT_EQ(process.sessions.size(), 1u);
  EXPECT_EQ(blocks_of(sparse.get()), before);
}

TEST(ProcessStatsTest, ASegmentWithManyDescriptorsIsReadOnce) {
  const Counters first;
  std::vector<UniqueFd> copies;
  const UniqueFd sparse(make_sparse_segment());
  // Without deduplication so many descriptors would exhaust the budget of a process.
  for (int i = 0; i < 100; ++i) copies.emplace_back(::dup(sparse.get()));
  const Counters last;

  const ProcessStats process = stats_of(::getpid());

  EXPECT_EQ(process.sessions.size(), 3u);
  EXPECT_EQ(process.not_read, 0u);
}

TEST(ProcessStatsTest, SegmentsBeyondWhatIsReadOfAProcessAreCountedAndLeftOut) {
  std::vector<UniqueFd> segments;
  for (int i = 0; i < 20; ++i) segments.emplace_back(make_sparse_segment());

  const ProcessStats process = stats_of(::getpid());

  EXPECT_EQ(process.sessions.size(), kProcessLimits.read_bytes >> 22);
  EXPECT_EQ(process.not_read, 20 - (kProcessLimits.read_bytes >> 22));
}

TEST(ProcessStatsTest, InheritedSegmentsAreNotReadAndKeepNothingOfItsOwnOut) {
  std::vector<UniqueFd> parents;
  for (int i = 0; i < 20; ++i) parents.emplace_back(make_sparse_segment());
  const Other child([] { new Counters; });

  const ProcessStats process = stats_of(child.pid());

  EXPECT_EQ(process.sessions.size(), 1u);
  EXPECT_EQ(process.not_read, 0u);
}

TEST(ProcessStatsTest, ALookAtAllVisitsProcessesWithTheirFolders) {
  const Other other([] { (new Counters)->add(PathId::host, Reason::none, Op::read, 5); });
  unsigned visits = 0;
  std::string name;

  const Result<LookResult> result = look_at_processes({}, [&](const ProcessStats& process, int folder) {
    if (process.pid != other.pid()) return;
    ++visits;
    const UniqueFd comm(::openat(folder, "comm", O_RDONLY | O_CLOEXEC));
    char text[64];
    name.assign(text, static_cast<std::size_t>(std::max<ssize_t>(::read(comm.get(), text, sizeof text), 0)));
  });

  ASSERT_TRUE(result.ok());
  EXPECT_EQ(visits, 1u);
  EXPECT_EQ(name, "penstock_stats_\n");
  EXPECT_GE(result->looked_at, 2u);
}

TEST(ProcessStatsTest, ALookWhereThereAreNoProcessesFails) {
  EXPECT_TRUE(look_at_processes({.proc = "/nowhere"}, [](const ProcessStats&, int) {}).status().is_errno(ENOENT));
}

// We may open its folder of descriptors, but not the files behind them.
TEST(ProcessStatsTest, AProcessOfOurUserWithMoreCapabilitiesIsNotOursToLookAt) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give capabilities away";
  const Other other([] { new Counters; });
  const pid_t child = ::fork();
  if (child == 0) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    const __user_cap_data_struct none[2] = {};
    if (::syscall(SYS_capset, &header, none) != 0) ::_exit(2);
    const bool is_refused = stats_of_process(other.pid()).status().is_errno(EACCES);
    const Result<LookResult> all = look_at_processes({}, [](const ProcessStats&, int) {});
    ::_exit(is_refused && all.ok() && all->hidden > 0 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(LookBudgetTest, WhatAPartSpendsIsSpentOfTheWhole) {
  LookBudget whole({.segments = 5, .time = std::chrono::hours(1)});
  LookBudget part({.segments = 3, .time = std::chrono::hours(1)}, &whole);
  LookBudget other({.segments = 3, .time = std::chrono::hours(1)}, &whole);

  EXPECT_TRUE(part.take(&LookLimits::segments, 3));
  EXPECT_FALSE(part.take(&LookLimits::segments, 1));
  EXPECT_FALSE(other.take(&LookLimits::segments, 3));
  EXPECT_TRUE(other.take(&LookLimits::segments, 2));
}

TEST(LookBudgetTest, AfterItsTimeNothingIsTaken) {
  ManualClock clock;
  LookBudget budget({.segments = 5, .time = std::chrono::seconds(2)}, nullptr, clock);

  clock.advance(std::chrono::seconds(2));
  EXPECT_TRUE(budget.take(&LookLimits::segments, 1));
  clock.advance(std::chrono::nanoseconds(1));
  EXPECT_FALSE(budget.take(&LookLimits::segments, 1));
}

TEST(ProcessStatsTest, AllProcessesWithStatisticsAreFound) {
  const Other other([] { new Counters; });

  const AllStats all = stats_of_all_processes();

  const auto is_other = [&](const ProcessStats& process) { return process.pid == other.pid(); };
  EXPECT_EQ(std::count_if(all.processes.begin(), all.processes.end(), is_other), 1);
}

}  // namespace
}  // namespace penstock::core
