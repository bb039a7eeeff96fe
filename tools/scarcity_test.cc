// SPDX-License-Identifier: Apache-2.0

// The built tool where threads or memory are not to be had.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>

#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

// RLIMIT_NPROC does the same, but root does not feel it.
void forbid_threads() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
  };
  const sock_fprog filter{std::size(program), program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    _exit(125);
  }
}

TEST_F(Tool, CpWithoutThreadsCopiesInOne) {
  const std::string bytes = make("data", 3'000'001);
  const Finished done = run({"cp", "data", "copy", "--verify", "--window", "1M"}, forbid_threads);
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_TRUE(text_of(path("copy")) == bytes);
}

TEST_F(Tool, BenchWithoutThreadsSaysSoAndWhy) {
  make("data", 5000);
  const Finished done = run({"bench", "data", "--threads", "2"}, forbid_threads);
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_EQ(
      done.err,
      "penstock: only 0 of 2 threads could be started (Resource temporarily unavailable); ask for fewer, or raise "
      "the limits (ulimit -u, -v)\n");
}

}  // namespace
}  // namespace penstock::tools
