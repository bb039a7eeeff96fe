// SPDX-License-Identifier: Apache-2.0

// `penstock stats --live` from outside, beside a process that reads. test/terminal looks at it on a terminal.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "fakes/tool_fixture.h"
#include "fakes/waiting.h"

namespace penstock::tools {
namespace {

using nlohmann::json;

class TopTest : public Tool {
 protected:
  TopTest() {
    make("data", 1 << 20);
    reader_ = start({"bench", "data", "--time", "600"}, [] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int nowhere = open("/dev/null", O_WRONLY);
      dup2(nowhere, STDOUT_FILENO);
      dup2(nowhere, STDERR_FILENO);
    });
  }
  ~TopTest() override {
    kill(reader_, SIGKILL);
    waitpid(reader_, nullptr, 0);
  }

  pid_t reader_;
};

TEST_F(TopTest, AProcessThatReadsIsThereWithItsRateItsPathAndItsReason) {
  json seen;
  ASSERT_TRUE(wait_until([&] {
    const Finished done = run({"stats", "--live", "--json", "--interval", "0.1"});
    const json told = json::parse(done.out, nullptr, false);
    for (const json& process : told["processes"]) {
      if (process["pid"] == reader_) seen = process;
    }
    return seen.is_object() && seen["read_bytes_per_second"] > 0;
  }));

  EXPECT_EQ(seen["command"], "penstock");
  EXPECT_EQ(seen["written_bytes_per_second"], 0);
  const json& way = seen["ways"].at(0);
  EXPECT_EQ(way["op"], "read");
  EXPECT_NE(way["path"], "");
  EXPECT_NE(way["reason"], "");
}

TEST_F(TopTest, WhereTheOutputIsNoTerminalItPrintsOneTable) {
  Finished done;
  ASSERT_TRUE(wait_until([&] {
    done = run({"stats", "--live", "--interval", "0.05"});
    return done.out.find(std::to_string(reader_)) != std::string::npos;
  }));

  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_TRUE(done.out.starts_with("penstock stats: ")) << done.out;
  EXPECT_NE(done.out.find("read GB/s"), std::string::npos) << done.out;
  EXPECT_EQ(done.out.find("..."), std::string::npos) << "nothing is cut: " << done.out;
  EXPECT_EQ(done.out.find('\033'), std::string::npos) << done.out;
}

TEST_F(TopTest, ADumbTerminalIsNotDrawnOn) {
  const Finished done = run({"stats", "--live", "--once", "--interval", "0.05"}, [] { setenv("TERM", "dumb", 1); });
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.out.find('\033'), std::string::npos) << done.out;
}

// A container's runtime starts it so: the test's own process has more, so it cannot be looked at.
TEST_F(TopTest, RootWithoutCapabilitiesIsToldWhatItLacksByTopAndByStats) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give capabilities away";
  const auto without = [] {
    for (int capability = 0; capability <= CAP_LAST_CAP; ++capability) prctl(PR_CAPBSET_DROP, capability);
  };
  if (prctl(PR_CAPBSET_READ, CAP_SYS_PTRACE) != 1) GTEST_SKIP() << "this process lacks them, too";

  const Finished top = run({"stats", "--live", "--once", "--interval", "0.05"}, without);
  EXPECT_NE(top.out.find("cannot be looked at: root lacks the capabilities"), std::string::npos) << top.out << top.err;
  const Finished stats = run({"stats"}, without);
  EXPECT_NE(stats.out.find("root lacks the capabilities SYS_PTRACE and DAC_READ_SEARCH here\n"), std::string::npos)
      << stats.out << stats.err;
  const Finished one = run({"stats", std::to_string(getpid())}, without);
  EXPECT_NE(one.err.find("cannot be looked at: root lacks the capabilities"), std::string::npos) << one.err;
  EXPECT_EQ((top.out + stats.out + one.err).find("as root"), std::string::npos);
}

TEST_F(TopTest, WrongUsageIsRefused) {
  for (const char* const interval : {"0", "-1", "nan", "fish", "1e9"}) {
    EXPECT_EQ(run({"stats", "--live", "--once", "--interval", interval}).exit_code, 2) << interval;
  }
}

}  // namespace
}  // namespace penstock::tools
