// SPDX-License-Identifier: Apache-2.0

// `penstock serve` from outside: other processes move bytes through the library, and the node is asked what it saw.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "fakes/http_client.h"
#include "fakes/node_fixture.h"
#include "fakes/prometheus_check.h"
#include "fakes/waiting.h"
#include "penstock/penstock.h"
#include "stats/layout.h"
#include "topology/test_tree.h"

namespace penstock::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHostWrites = R"(path="host",reason="host_memory",op="write")";

TEST(NodeTest, WhatAContainersProcessesMoveIsCountedAndStaysWhenTheyEnd) {
  const Pod pod;
  if (!pod.is_there()) GTEST_SKIP() << "no control group can be made here: " << pod.why_not();
  const Node node;
  {
    const Worker worker([] { write_five_thousand(3); }, [&] { pod.enter(); });
    EXPECT_TRUE(node.comes_to(pod.series("penstock_container_bytes_total", kHostWrites), 15000));
    EXPECT_EQ(node.value(pod.series("penstock_container_sessions")), 1);
  }

  EXPECT_TRUE(node.comes_to(pod.series("penstock_container_sessions"), 0));
  EXPECT_EQ(node.value(pod.series("penstock_container_operations_total", kHostWrites)), 3);
}

TEST(NodeTest, EachMayLookAtWhatItsCapabilitiesShow) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give capabilities away";
  const Pod roots, strangers;
  if (!roots.is_there()) GTEST_SKIP() << "no control group can be made here: " << roots.why_not();
  const Worker root([] { write_five_thousand(1); }, [&] { roots.enter(); });
  const Worker stranger([] { write_five_thousand(1); },
                        [&] {
                          strangers.enter();
                          become(4711);
                        });
  const auto is_seen = [](const Node& node, const Pod& pod) {
    return node.value(pod.series("penstock_container_sessions")) == 1;
  };
  {
    const Node node({}, [] { keep_capabilities({}); });
    EXPECT_TRUE(!is_seen(node, roots) && !is_seen(node, strangers));
    EXPECT_GT(node.value("penstock_node_processes{state=\"forbidden\"}"), 0);
    EXPECT_TRUE(node.says("SYS_PTRACE and DAC_READ_SEARCH")) << node.said();
  }
  {
    const Node node({}, [] { keep_capabilities({CAP_SYS_PTRACE}); });
    EXPECT_TRUE(is_seen(node, roots) && !is_seen(node, strangers));
  }
  {
    const Node node({}, [] { keep_capabilities({CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH}); });
    EXPECT_TRUE(is_seen(node, roots) && is_seen(node, strangers));
  }
}

TEST(NodeTest, WithoutAnyRightItSeesItsOwnUsersProcesses) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become somebody else";
  const Pod pod;
  if (!pod.is_there()) GTEST_SKIP() << "no control group can be made here: " << pod.why_not();
  const Worker worker([] { write_five_thousand(1); },
                      [&] {
                        pod.enter();
                        become(4711);
                      });
  const Node node({}, [] { become(4711); });
  if (!node.is_running()) GTEST_SKIP() << "the tool lies where nobody else may run it";

  EXPECT_EQ(node.value(pod.series("penstock_container_sessions")), 1);
  EXPECT_EQ(node.value("penstock_path_available{path=\"host\",reason=\"none\"}"), 1);
}

TEST(NodeTest, ServesBothFormatsWellFormed) {
  const Worker worker([] { write_five_thousand(1); });
  const Node node;

  const std::string open = ask(node.address(), "/metrics");
  const std::string plain = ask(node.address(), "/metrics", "text/plain;version=0.0.4");

  EXPECT_NE(open.find("\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"),
            std::string::npos);
  EXPECT_EQ(parse_openmetrics(body_of(open)).faults, std::vector<std::string>{});
  EXPECT_NE(plain.find("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), std::string::npos);
  EXPECT_EQ(parse_prometheus(body_of(plain)).faults, std::vector<std::string>{});
}

TEST(NodeTest, OncePrintsTheMetricsAndEnds) {
  const Worker worker([] { write_five_thousand(1); });

  const Finished done = run_tool({"serve", "--once"});

  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(parse_prometheus(done.out).faults, std::vector<std::string>{});
  EXPECT_NE(done.out.find("\npenstock_path_available{path=\"host\",reason=\"none\"} 1\n"), std::string::npos)
      << done.out;
  EXPECT_NE(done.out.find("\npenstock_node_looks_total 1\n"), std::string::npos) << done.out;
  const std::size_t bytes = done.out.find("\npenstock_node_bytes_total{" + std::string(kHostWrites));
  ASSERT_NE(bytes, std::string::npos) << done.out;
  EXPECT_GE(std::stoull(done.out.substr(done.out.find("} ", bytes) + 2)), 5000u) << "it was moved before this look";
  EXPECT_EQ(run_tool({"serve", "--once", "--listen", "127.0.0.1:0"}).exit_code, 2);
  EXPECT_EQ(run_tool({"serve", "--once", "--host", "absent"}).exit_code, 2);
}

TEST(NodeTest, OnceFailsIfAFileCannotBeWritten) {
  const core::TestTree folders;
  fs::create_directories(folders.path() + "/textfile/penstock.prom");

  const Finished done = run_tool({"serve", "--once", "--textfile", folders.path() + "/textfile"});

  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.out.find("\npenstock_node_looks_total 1\n"), std::string::npos) << done.out;
  EXPECT_NE(done.err.find("penstock.prom: could not"), std::string::npos) << done.err;
}

TEST(NodeTest, TellsThatItIsAliveAndReady) {
  const Node node;

  EXPECT_EQ(body_of(ask(node.address(), "/healthz")), "ok\n");
  EXPECT_EQ(body_of(ask(node.address(), "/readyz")), "ok\n");
  EXPECT_TRUE(ask(node.address(), "/elsewhere").starts_with("HTTP/1.1 404 "));
}

TEST(NodeTest, SegmentsThatMakeNoSenseAreCountedAndHarmNothing) {
  const Pod pod;
  if (!pod.is_there()) GTEST_SKIP() << "no control group can be made here: " << pod.why_not();
  const Worker impostor([] {
    for (int i = 0; i < 100; ++i) {
      const int fd = ::memfd_create(core::kStatsName, MFD_CLOEXEC | MFD_ALLOW_SEALING);
      std::string bytes(1 << 16, static_cast<char>(i));
      std::memcpy(bytes.data(), core::kStatsMagic, sizeof core::kStatsMagic);
      (void)!::write(fd, bytes.data(), bytes.size());
      (void)::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
    }
  });
  const Worker worker([] { write_five_thousand(1); }, [&] { pod.enter(); });
  const Node node;

  EXPECT_EQ(node.value(pod.series("penstock_container_sessions")), 1);
  EXPECT_GE(node.value("penstock_node_sessions_left_out{cause=\"unreadable\"}"), 100);
}

TEST(NodeTest, ProcessesThatComeAndGoWhileItLooksHarmNothing) {
  const Node node;
  const Worker churn([] {
    if (::fork() != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) {
      const pid_t child = ::fork();
      if (child == 0) {
        write_five_thousand(1);
        ::_exit(0);
      }
      ::waitpid(child, nullptr, 0);
    }
  });

  const double before = node.value("penstock_node_looks_total");
  EXPECT_TRUE(wait_until([&] { return node.value("penstock_node_looks_total") >= before + 3; }));
  EXPECT_EQ(parse_openmetrics(body_of(ask(node.address(), "/metrics"))).faults, std::vector<std::string>{});
}

TEST(NodeTest, ASignalEndsItAtOnceAndWell) {
  for (const int signal_number : {SIGTERM, SIGINT}) {
    Node node;
    EXPECT_EQ(node.end(signal_number), 0);
  }
}

TEST(NodeTest, FilesForOthersAppearWholeAndStayFresh) {
  const core::TestTree folders;
  fs::create_directories(folders.path() + "/textfile");
  fs::create_directories(folders.path() + "/features.d");
  Node node({"--textfile", folders.path() + "/textfile", "--nfd", folders.path() + "/features.d"});
  const auto text_of = [&](const std::string& name) {
    std::ifstream file(folders.path() + name);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };

  ASSERT_TRUE(wait_until([&] { return fs::exists(folders.path() + "/features.d/penstock"); }));
  EXPECT_EQ(parse_prometheus(text_of("/textfile/penstock.prom")).faults, std::vector<std::string>{});
  EXPECT_TRUE(text_of("/features.d/penstock").starts_with("# +expiry-time=20"));
  fs::remove(folders.path() + "/features.d/penstock");
  EXPECT_TRUE(wait_until([&] { return fs::exists(folders.path() + "/features.d/penstock"); }));
  EXPECT_EQ(node.end(SIGTERM), 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(folders.path() + "/textfile"), {}), 1);
}

TEST(NodeTest, AFolderThatVanishesIsToldAndTheRestGoesOn) {
  const core::TestTree folders;
  fs::create_directories(folders.path() + "/textfile");
  const Node node({"--textfile", folders.path() + "/textfile"});
  fs::rename(folders.path() + "/textfile", folders.path() + "/elsewhere");  // At once, whatever is written there.

  EXPECT_TRUE(wait_until([&] { return node.value("penstock_node_write_errors_total{file=\"textfile\"}") > 0; }));
  EXPECT_TRUE(node.says("penstock.prom: could not")) << node.said();
}

TEST(NodeTest, ALogThatNobodyReadsEndsNoWatch) {
  const core::TestTree folders;
  fs::create_directories(folders.path() + "/textfile");
  Node node({"--textfile", folders.path() + "/textfile"});
  node.close_log();
  fs::rename(folders.path() + "/textfile", folders.path() + "/elsewhere");  // At once, whatever is written there.

  EXPECT_TRUE(wait_until([&] { return node.value("penstock_node_write_errors_total{file=\"textfile\"}") > 0; }));
  EXPECT_EQ(node.end(SIGTERM), 0);
}

TEST(NodeTest, ANodeUnderAnotherRootIsReadThere) {
  core::TestTree host;
  host.put("/proc/driver/nvidia-fs/version", "version: 2.28\n")
      .put("/proc/driver/nvidia-fs/modules", "nvme: /lib/x\n")
      .put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.45.04  Sat\n")
      .put("/sys/module/nvidia/version", "595.45.04\n");
  const Node node({"--host", host.path()});

  EXPECT_EQ(node.value("penstock_nvidia_fs_info{version=\"2.28\"}"), 1);
  EXPECT_EQ(node.value("penstock_nvidia_fs_storage_driver{driver=\"nvme\"}"), 1);
  EXPECT_EQ(node.value("penstock_gpu_driver_info{version=\"595.45.04\",modules=\"open\"}"), 1);
  EXPECT_EQ(node.value("penstock_node_sessions"), 0);
}

TEST(NodeTest, OfProcAndSysAloneTheSamePathsAreOffered) {
  const core::TestTree host;
  const std::string machine = PENSTOCK_MACHINES "dgx-h100";
  for (const char* const name : {"/proc", "/sys"}) {
    fs::copy(machine + name, host.path() + name, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }
  const std::string gpu = host.path() + "/proc/driver/nvidia/gpus/0000:18:00.0";
  fs::create_directories(gpu);
  std::ofstream(gpu + "/information") << "Model: \t\t NVIDIA H100 80GB HBM3\nDevice Minor: \t 0\n";

  // NVIDIA's library lies elsewhere, and is not to be seen there.
  EXPECT_EQ(run_tool({"serve", "--problem-detector", "vendor", "--host", host.path()}).exit_code, 2);
  for (const char* const path : {"p2pdma", "pagecache", "nvfs", "bounce"}) {
    const Finished whole = run_tool({"serve", "--problem-detector", path, "--host", machine});
    const Finished bare = run_tool({"serve", "--problem-detector", path, "--host", host.path()});
    EXPECT_EQ(bare.exit_code, whole.exit_code) << path;
    EXPECT_EQ(bare.out, whole.out) << path;
  }
}

TEST(NodeTest, AnswersNodeProblemDetector) {
  const Finished good = run_tool({"serve", "--problem-detector", "host"});
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_EQ(good.out, "host is available\n");

  const Finished unknown = run_tool({"serve", "--problem-detector", "host", "--host", "/nowhere"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_LE(unknown.out.find('\n'), 80u);
  EXPECT_EQ(unknown.err, "");
}

TEST(NodeTest, WrongUsageIsRefused) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"--listen", "nowhere"},
                                                                                     {"--listen", "none"},
                                                                                     {"--interval", "0"},
                                                                                     {"--interval", "nan"},
                                                                                     {"--host", "/nowhere"},
                                                                                     {"--textfile", "/nowhere"},
                                                                                     {"--nfd", "/etc/passwd"}}) {
    std::vector<std::string> all = {"serve"};
    all.insert(all.end(), words.begin(), words.end());
    const Finished done = run_tool(all);
    EXPECT_EQ(done.exit_code, 2) << words[0] << " " << words[1];
    EXPECT_NE(done.err, "");
  }
}

}  // namespace
}  // namespace penstock::tools
