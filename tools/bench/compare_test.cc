// SPDX-License-Identifier: Apache-2.0

// The built `penstock bench --compare`. Its words about time are looked at only where results are made up.
#include <nlohmann/json.hpp>

#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class BenchCompare : public Tool {
 protected:
  // Writes a result like that of a run of bench.
  void make_result(const std::string& name, double low, double rate, double high) {
    const Json result = {{"settings", {{"rw", "read"}, {"block_size", 4096}}},
                         {"result",
                          {{"with_fsync", nullptr},
                           {"rate", {{"gb_per_s", rate}, {"low", low}, {"high", high}, {"degrees_of_freedom", 9}}}}}};
    std::ofstream(path(name)) << result;
  }
  Json compared(const std::string& a, const std::string& b) {
    const Finished done = run({"bench", "--compare", a, b, "--json"});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return Json::parse(done.out);
  }
};

TEST_F(BenchCompare, MeasuresTwoSettingsInTurns) {
  make("data", 1 << 20);
  const Finished done =
      run({"bench", "data", "--compare", "buffered,warm", "bs=4k,depth=1", "--pairs", "3", "--time", "0.6", "--json"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const Json report = Json::parse(done.out);
  EXPECT_EQ(report["schema"], 1);
  ASSERT_EQ(report["sides"].size(), 2u);
  EXPECT_EQ(report["sides"][0]["settings"]["descriptor"], "buffered");
  EXPECT_EQ(report["sides"][1]["settings"]["block_size"], 4096);
  for (const Json& side : report["sides"]) EXPECT_EQ(side["turns_gb_per_s"].size(), 3u);
  EXPECT_LE(report["comparison"]["low"], report["comparison"]["ratio"]);
  EXPECT_GE(report["comparison"]["high"], report["comparison"]["ratio"]);
}

TEST_F(BenchCompare, SetsTheLibrarysVariablesForOneSideAlone) {
  make("data", 1 << 20);
  const Finished done = run({"bench", "data", "--compare", "PENSTOCK_PATHS=null,bounce", "PENSTOCK_PATHS=bounce,host",
                             "--pairs", "2", "--time", "0.2", "--json"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const Json report = Json::parse(done.out);
  EXPECT_EQ(report["sides"][0]["settings"]["environment"].back(), "PENSTOCK_PATHS=null,bounce");
  EXPECT_GT(report["sides"][0]["bytes_by_path"]["null"], 0);
  EXPECT_EQ(report["sides"][1]["bytes_by_path"]["null"], 0);
}

TEST_F(BenchCompare, OfWritesCountsTheirFsync) {
  make("data", 300'000);
  const Finished done =
      run({"bench", "data", "--rw", "write", "--overwrite", "--compare", "bs=64k", "bs=4k", "--pairs", "2", "--json"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const Json report = Json::parse(done.out);
  for (const Json& side : report["sides"]) {
    EXPECT_EQ(side["result"]["bytes"], 2 * 300'000);
    EXPECT_EQ(side["result"]["passes"], 2);
    EXPECT_TRUE(side["result"]["with_fsync"].is_object());
  }
}

TEST_F(BenchCompare, OfResultsFollowsTheirIntervals) {
  make_result("slow", 0.9, 1, 1.1);
  make_result("like", 0.95, 1.05, 1.15);
  make_result("fast", 1.9, 2, 2.1);
  EXPECT_EQ(compared("slow", "like")["comparison"]["verdict"], "no difference found");
  const Json differs = compared("slow", "fast");
  EXPECT_EQ(differs["comparison"]["verdict"], "differs");
  EXPECT_NEAR(differs["comparison"]["ratio"], 2, 1e-9);
  const Finished done = run({"bench", "--compare", "slow", "fast"});
  EXPECT_NE(done.out.find("differs: 'fast' is 2.000 times as fast as 'slow'"), std::string::npos) << done.out;
}

TEST_F(BenchCompare, TakesWhatBenchWroteAndNamesDifferentSettings) {
  make("data", 1 << 20);
  for (const char* size : {"4k", "64k"}) {
    const Finished done = run({"bench", "data", "--bs", size, "--time", "0.5", "--json"});
    std::ofstream(path(size)) << done.out;
  }
  EXPECT_EQ(compared("4k", "64k")["different_settings"], Json({"block_size: 4096 against 65536"}));
}

TEST_F(BenchCompare, TellsOnesOwnJobBeforeAndAfterAChange) {
  const auto make_run = [&](const char* name, double seconds, const char* path_taken, const char* argument) {
    const Json way = {{"path", path_taken}, {"op", "read"}, {"bytes", 3u << 30}};
    std::ofstream(path(name)) << Json{{"program", {"train", argument}},
                                      {"seconds", seconds},
                                      {"exit_code", 0u},
                                      {"reports", {{{"ways", {way, way}}}}},
                                      {"without_cufile", {{"read_call_bytes", 1u << 20}, {"write_call_bytes", 0u}}}};
  };
  make_run("before", 40, "bounce", "x");
  make_run("after", 30, "p2pdma", "x");
  make_run("other", 30, "p2pdma", "y");
  EXPECT_EQ(compared("before", "after")["ratio"], 0.75);
  const Finished told = run({"bench", "--compare", "before", "after"});
  EXPECT_NE(told.out.find("6 GiB read by bounce, 1 MiB read without cuFile\n"), std::string::npos) << told.out;
  EXPECT_NE(told.out.find("after took 0.75 of the time of before. "), std::string::npos) << told.out;
  EXPECT_EQ(told.out.find("different programs"), std::string::npos) << told.out;
  EXPECT_NE(run({"bench", "--compare", "before", "other"}).out.find("different programs"), std::string::npos);
}

TEST_F(BenchCompare, RefusesWhatIsNoResultInOneSentence) {
  make_result("good", 0.9, 1, 1.1);
  make_result("none", -1, 1, 2);
  for (const char* text : {"", "{}", "[]", "\x01\xff", "{\"result\":3}", "{\"result\":{\"rate\":[1]}}",
                           "{\"result\":{\"rate\":{\"low\":\"1\"}}}", "{\"result\":{\"rate\":{\"low\":1e999}}}"}) {
    std::ofstream(path("bad")) << text;
    const Finished done = run({"bench", "--compare", "good", "bad"});
    EXPECT_EQ(done.exit_code, 2) << text;
    EXPECT_TRUE(done.err.starts_with("penstock: bad: ")) << done.err;
  }
  EXPECT_EQ(run({"bench", "--compare", "none", "good"}).exit_code, 2);
  EXPECT_EQ(run({"bench", "--compare", "absent", "good"}).exit_code, 1);
}

TEST_F(BenchCompare, RefusesWordsThatMakeNoSense) {
  make("data", 5000);
  for (const Words& more : std::vector<Words>{{"direct"},
                                              {"direct", "sideways"},
                                              {"direct", ""},
                                              {"direct", "bs=0"},
                                              {"direct", "bs=4KB"},
                                              {"direct", "depth=many"},
                                              {"direct", "memory=tape"},
                                              {"direct", "PENSTOCK_POLCY=cpu"},
                                              {"direct", "buffered", "--pairs", "1"},
                                              {"direct", "buffered", "--verify"},
                                              {"direct", "buffered", "--repeat", "3"},
                                              {"direct", "buffered", "--sweep", "bs=4k"}}) {
    Words words = {"bench", "data", "--compare"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished done = run(words);
    EXPECT_EQ(done.exit_code, 2) << more.back() << ": " << done.err;
  }
  EXPECT_EQ(run({"bench", "--compare", "data", "data", "--bs", "4k"}).exit_code, 2);
}

}  // namespace
}  // namespace penstock::tools
