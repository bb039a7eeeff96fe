#include "stats/process_stats.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>

#include "stats/counters.h"

namespace penstock::core {
namespace {

// Another process, which does its work, tells that it is done, and then waits until it is ended.
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

TEST(ProcessStatsTest, AnImpostorIsRefusedAndNeverMapped) {
  const Other other([] {
    // Without seals it could shrink under the reader.
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

TEST(ProcessStatsTest, AllProcessesWithStatisticsAreFound) {
  const Other other([] { new Counters; });

  const AllStats all = stats_of_all_processes();

  const auto is_other = [&](const ProcessStats& process) { return process.pid == other.pid(); };
  EXPECT_EQ(std::count_if(all.processes.begin(), all.processes.end(), is_other), 1);
}

}  // namespace
}  // namespace penstock::core
