// SPDX-License-Identifier: Apache-2.0

// penstock-model with hostile or too large inputs: names with terminal escapes, files that do not fit into memory.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using Names = std::vector<std::string>;

// Clears a terminal with a C1 control as a lone byte, ends a line.
const std::string kHostile = "a\x1b[2J\x9b\xff\nb";
const std::string kShown = "a\\x1b[2J\\x9b\\xff\\x0ab";

class HostileNames : public Tool {};

TEST_F(HostileNames, OfFilesAreShownEscapedByTheModels) {
  make(kHostile, 8192);
  for (const Names& arguments : {Names{"compare", kHostile}, Names{"contention", "--topology", kHostile}}) {
    const Finished done = run(arguments);
    EXPECT_EQ(done.exit_code, 2) << done.err;
    EXPECT_EQ(done.err.find_first_of("\x1b\x9b\xff"), std::string::npos) << done.err;
    EXPECT_NE(done.err.find(kShown), std::string::npos) << done.err;
  }
}

TEST_F(HostileNames, OfATopologyAreShownEscaped) {
  std::string topology = run({"contention", "--print-topology"}).out;
  std::size_t names = 0;
  for (std::size_t at = 0; (at = topology.find("gpu0", at)) != std::string::npos; at += 4, ++names) {
    topology.replace(at, 4, "\"a\\e[2J\\x9b\"");
  }
  ASSERT_GT(names, 0u);
  std::ofstream(path("hostile.yaml")) << topology;
  for (const Names& more : {Names{}, Names{"--print-topology"}, Names{"--pair", "nvme0=nobody"}}) {
    Names arguments = {"contention", "--size", "16M", "--topology", "hostile.yaml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished done = run(arguments);
    EXPECT_EQ((done.out + done.err).find_first_of("\x1b\x9b"), std::string::npos) << done.out << done.err;
  }
  EXPECT_NE(run({"contention", "--size", "16M", "--topology", "hostile.yaml"}).out.find("a\\x1b[2J"),
            std::string::npos);
}

TEST_F(HostileNames, OfPathsInResultsAreShownEscaped) {
  std::ofstream(path("results.json")) << R"({"settings": {"block_size": 4096, "threads": 1, "depth": 1, "rw": "read"},
    "result": {"bytes": 1e9, "seconds": 1}, "bytes_by_path": {"a\u001b[2J\u009b": 1e9}})";
  for (const char* format : {"--sensitivity", "--csv", "--json"}) {
    const Finished done = run({"compare", "results.json", format});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_EQ(done.out.find_first_of("\x1b\x9b"), std::string::npos) << done.out;
    EXPECT_NE(done.out.find("[2J"), std::string::npos) << done.out;
  }
}

TEST_F(Tool, ModelWithoutMemoryEndsWithOneSentence) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs more address space than any limit";
#endif
  make("data", 1);
  ASSERT_EQ(truncate(path("data").c_str(), 64 << 20), 0);
  const Finished done = run({"compare", "data"}, [] {
    const rlimit limit{64 << 20, 64 << 20};
    setrlimit(RLIMIT_AS, &limit);
  });
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_EQ(done.err,
            "penstock-model: there is not enough memory for this; free some, or raise the limit (ulimit -v)\n");
}

}  // namespace
}  // namespace penstock::tools
