// SPDX-License-Identifier: Apache-2.0

// The built `penstock bench --suite`: its output, and the files that it leaves behind.
#include <csignal>
#include <nlohmann/json.hpp>

#include "fakes/browser.h"
#include "fakes/tool_fixture.h"
#include "fakes/waiting.h"

namespace penstock::tools {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class Suite : public Tool {
 protected:
  Finished suite(const Words& more) {
    Words words = {"bench", "--suite", ".", "--scale", "0.0002", "--turns", "2"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  bool is_absent(const Finished& done) const { return done.exit_code == 77; }
};

TEST_F(Suite, MeasuresEveryRowOfTheTableAndLeavesNothing) {
  const Finished done = suite({"--json"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const Json report = Json::parse(done.out);
  EXPECT_EQ(report["schema"], 1);
  ASSERT_EQ(report["workloads"].size(), 6u);
  for (const Json& row : report["workloads"]) {
    const auto bytes = row["bytes"].get<std::uint64_t>();
    std::uint64_t by_path = 0;
    for (const auto& [path, count] : row["bytes_by_path"].items()) by_path += count.get<std::uint64_t>();
    EXPECT_EQ(by_path, 2 * bytes) << row["workload"];
    ASSERT_EQ(row["ways"].size(), 2u);
    for (const Json& way : row["ways"]) {
      EXPECT_EQ(way["turns_s"].size(), 2u);
      EXPECT_NEAR(way["full_size_s"].get<double>() / way["median_s"].get<double>(),
                  row["full_bytes"].get<double>() / static_cast<double>(bytes), 1e-6);
      EXPECT_EQ(way["waiting_hours"].is_null(), row["operation"] == "load");
    }
  }
  EXPECT_TRUE(report["host_memory_stands_in"]);
  EXPECT_EQ(folder(), Words{});
}

TEST_F(Suite, SaysItsFiguresAndWhatTheyAreNot) {
  const Finished done = suite({"--only", "save-7b", "--only", "load-109b", "--checkpoints", "10", "--price", "2"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  for (const char* words : {"without, s", "with Penstock, s", "times as fast", "save-7b", "load-109b", "published",
                            "Host memory stands in for a GPU", "10 saves that 8 GPUs wait for, at $2"}) {
    EXPECT_NE(done.out.find(words), std::string::npos) << words << "\n" << done.out;
  }
  EXPECT_EQ(done.out.find("save-70b"), std::string::npos);
}

TEST_F(Suite, ComparesWithAnotherLibrary) {
  const Finished done = suite({"--only", "save-sharded", "--only", "load-671b", "--versus", PENSTOCK_CUFILE, "--json"});
  if (is_absent(done)) GTEST_SKIP() << "a build without benchmarks: " << done.err;
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const Json report = Json::parse(done.out);
  for (const Json& row : report["workloads"]) {
    ASSERT_EQ(row["ways"].size(), 3u);
    EXPECT_GT(row["ways"][2]["gain"]["times"].get<double>(), 0);
  }
  EXPECT_EQ(folder(), Words{});
}

TEST_F(Suite, LeavesAPageThatABrowserShows) {
  const Finished done = suite({"--only", "save-7b", "--html", "suite.html"});
  if (is_absent(done)) GTEST_SKIP() << "built without Chart.js (libjs-chart.js)";
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(folder(), Words{"suite.html"});
  EXPECT_EQ(text_of(path("suite.html")).find("<script src"), std::string::npos);
  EXPECT_EQ(suite({"--only", "save-7b", "--html", "suite.html"}).exit_code, 2);
  if (browser().empty()) GTEST_SKIP() << "no Chromium here; Debian's package chromium-headless-shell has one";
  const std::string dom = opened(text_of(path("suite.html")));
  EXPECT_NE(dom.find("<body data-plots=\"2\">"), std::string::npos) << dom.substr(0, 2000);
}

TEST_F(Suite, RemovesItsFilesWhenItIsInterrupted) {
  const pid_t child = start({"bench", "--suite", ".", "--scale", "0.01", "--only", "save-70b", "--turns", "50"});
  int status = 0;
  bool has_ended = false;
  ASSERT_TRUE(wait_until([&] { return !folder().empty() || (has_ended = waitpid(child, &status, WNOHANG) == child); }));
  ASSERT_FALSE(has_ended) << "it ended before it made a file: " << text_of(root_ / "err");
  kill(child, SIGINT);
  EXPECT_EQ(wait(child).signal_number, SIGINT);
  EXPECT_EQ(folder(), Words{});
}

TEST_F(Suite, RefusesWhatCannotBeDoneBeforeItWrites) {
  make("file", 1);
  EXPECT_EQ(run({"bench", "--suite", "file"}).exit_code, 2);
  EXPECT_EQ(run({"bench", "--suite", "absent"}).exit_code, 1);
  for (const Words& more : std::vector<Words>{{"--scale", "0"},
                                              {"--scale", "2"},
                                              {"--scale", "nan"},
                                              {"--turns", "0"},
                                              {"--price", "-1"},
                                              {"--only", "moon"}}) {
    Words words = {"bench", "--suite", "."};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(run(words).exit_code, 2) << more[0] << " " << more[1];
  }
  EXPECT_EQ(folder(), Words{"file"});
}

TEST_F(Suite, LooksForRoomBeforeItWrites) {
  if (fs::space(path("")).available > std::uint64_t{600} << 30) GTEST_SKIP() << "this disk has room for all of it";
  const Finished full = run({"bench", "--suite", ".", "--scale", "1"});
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_NE(full.err.find("are free, and the largest workload writes"), std::string::npos) << full.err;
  EXPECT_EQ(folder(), Words{});
}

}  // namespace
}  // namespace penstock::tools
