// SPDX-License-Identifier: Apache-2.0

// `penstock bench --versus`: our library against itself, on host memory. Its words about time are not looked at.
#include <nlohmann/json.hpp>

#include "fakes/tool_fixture.h"
#include "fakes/waiting.h"

namespace penstock::tools {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class BenchVersus : public Tool {
 protected:
  Finished compare(const Words& more) {
    Words words = {"bench", "--versus", PENSTOCK_CUFILE, "--device", "host", "--pairs", "1", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
};

TEST_F(BenchVersus, AFileIsReadAndLeftAsItWas) {
  const std::string bytes = make("data", 3 << 20);
  const Finished done = compare({"data"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const Json report = Json::parse(done.out);
  ASSERT_EQ(report["contests"].size(), 5u) << done.out;
  for (const Json& contest : report["contests"]) {
    EXPECT_EQ(contest["entries"].size(), 2u) << contest;
    EXPECT_EQ(contest["measures"].size(), 2u) << contest;
  }
  EXPECT_EQ(text_of(path("data")), bytes);
  EXPECT_EQ(folder(), Words{"data"});
}

TEST_F(BenchVersus, AFileThatIsMadeIsTakenAwayAgain) {
  const Finished done = compare({"absent", "--size", "2M"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(folder(), Words{});
}

TEST_F(BenchVersus, WhatDoesNotGoWithItIsRefused) {
  make("data", 3 << 20);
  for (const Words& more : std::vector<Words>{{"data", "--bs", "4k"},
                                              {"data", "--rw", "write"},
                                              {"data", "--verify"},
                                              {"data", "--size", "1G"},
                                              {"data", "--size", "1k"},
                                              {"."},
                                              {"data", "--pairs", "0"}}) {
    const Finished done = compare(more);
    EXPECT_EQ(done.exit_code, 2) << more.back() << ": " << done.err;
  }
  for (const Words& words : std::vector<Words>{{"bench"}, {"bench", "data", "--pairs", "3"}}) {
    EXPECT_EQ(run(words).exit_code, 2) << words.back();
  }
}

TEST_F(BenchVersus, AFileInTheWayOfWhatIsWrittenIsLeftThere) {
  make("data", 3 << 20);
  const std::string bytes = make("data.written-ours", 100);
  const Finished done = compare({"data"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.err.find("data.written-ours: it is in the way"), std::string::npos) << done.err;
  EXPECT_EQ(text_of(path("data.written-ours")), bytes);
}

TEST_F(BenchVersus, ALibraryThatIsNoneIsRefusedBeforeAFileIsMade) {
  make("not-a-library", 100);
  for (const std::string& library : {path("not-a-library").string(), std::string("libpenstock-absent.so.0")}) {
    const Finished done = run({"bench", "absent", "--versus", library, "--device", "host"});
    EXPECT_EQ(done.exit_code, 2);
    EXPECT_NE(done.err.find("could not be loaded"), std::string::npos) << done.err;
  }
  EXPECT_EQ(folder(), Words{"not-a-library"});
}

TEST_F(BenchVersus, AnInterruptTakesTheFilesAway) {
  const pid_t tool =
      start({"bench", "absent", "--versus", PENSTOCK_CUFILE, "--device", "host", "--size", "8M", "--pairs", "1000"});
  ASSERT_TRUE(wait_until([&] { return fs::exists(path("absent")); }));
  ASSERT_EQ(::kill(tool, SIGINT), 0);
  const Finished done = wait(tool);
  EXPECT_EQ(done.signal_number, SIGINT) << done.err;
  EXPECT_EQ(folder(), Words{});
}

}  // namespace
}  // namespace penstock::tools
