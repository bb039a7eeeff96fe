// SPDX-License-Identifier: Apache-2.0

// The built `penstock bench`: its measurements, how often it makes them, and how sure it says it is.
#include <nlohmann/json.hpp>
#include <sstream>

#include "fakes/tool_fixture.h"
#include "fakes/waiting.h"

namespace penstock::tools {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class BenchTool : public Tool {
 protected:
  Json told(Words words) {
    words.insert(words.begin(), "bench");
    words.emplace_back("--json");
    const Finished done = run(words);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return Json::parse(done.out);
  }
};

TEST_F(BenchTool, AsksNoMoreThanTheWholeSizeWhereItIsToRepeatOnce) {
  make("data", 3'000'001);
  const Json report = told({"data", "--repeat", "1"});
  EXPECT_EQ(report["schema"], 1);
  EXPECT_EQ(report["result"]["bytes"], 3'000'001);
  EXPECT_EQ(report["result"]["passes"], 1);
  EXPECT_EQ(report["result"]["rate"]["low"], nullptr);
}

TEST_F(BenchTool, SaysWhichOtherPathsThereAreAndWhatMeasuresEach) {
  make("data", 1 << 20);
  const Finished two = run({"bench", "data", "--repeat", "1"});
  const Finished one = run({"bench", "data", "--repeat", "1"}, [] { setenv("PENSTOCK_PATHS", "bounce", 1); });

  EXPECT_NE(two.out.find("\nthis is one of 2 ways (bounce, host): 'penstock bench --require PATH FILE' measures"),
            std::string::npos)
      << two.out;
  EXPECT_EQ(one.out.find("--every-path"), std::string::npos) << one.out;
}

TEST_F(BenchTool, EveryPathGivenAFolderByItselfSaysWhichOptionTakesIt) {
  const Finished done = run({"bench", "--every-path", "folder"});
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_NE(done.err.find("put it behind that option: --dir DIR; see"), std::string::npos) << done.err;
}

TEST_F(BenchTool, WithoutAGpuARequiredPathToOneIsNotApplicable) {
  make("data", 1 << 20);
  for (const char* path : {"p2pdma", "vendor", "pagecache"}) {
    const Finished done = run({"bench", "data", "--repeat", "1", "--require", path});
    EXPECT_EQ(done.exit_code, 77) << done.err;
    const std::string told = std::string("penstock: --require ") + path +
                             ": nothing can be proven here, since host memory stands in for a GPU: ";
    EXPECT_EQ(done.err.find(told), 0u) << done.err;
  }
  EXPECT_EQ(run({"bench", "data", "--repeat", "1", "--require", "bounce"}).exit_code, 0);
  EXPECT_NE(run({"bench", "data", "--repeat", "1", "--require", "p2pdma", "--memory", "host"}).exit_code, 77);
}

TEST_F(BenchTool, RepeatsUntilItKnowsTheRateAndSaysHowWell) {
  make("data", 1 << 20);
  Json report;
  // A machine that gives it no processor for a while has it see fewer samples.
  EXPECT_TRUE(wait_until([&] {
    report = told({"data", "--bs", "64k"});
    return report["result"]["rate"]["stretches"].size() >= 10;
  }));
  const Json& rate = report["result"]["rate"];
  EXPECT_GT(report["result"]["bytes"], 1 << 20);
  EXPECT_GE(report["result"]["seconds"], 1.9);
  EXPECT_LE(rate["low"], rate["gb_per_s"]);
  EXPECT_GE(rate["high"], rate["gb_per_s"]);
  const Json& latency = report["result"]["latency_us"];
  double before = 0;
  for (const char* name : {"min", "p50", "p90", "p99", "p99.9"}) {
    EXPECT_GE(latency[name].get<double>(), before * 0.99) << name;
    before = latency[name];
  }
}

TEST_F(BenchTool, RepeatedPassesOfWritesAreEachFlushed) {
  Json report;
  // Beside other work one slow flush may be as long as all others, which then go with it.
  const auto is_told_apart = [&] {
    fs::remove(path("data"));
    report = told({"data", "--rw", "write", "--create", "--size", "300k", "--bs", "64k", "--repeat", "6"});
    return report["result"]["with_fsync"]["stretches"].size() > 1;
  };
  EXPECT_TRUE(wait_until(is_told_apart));
  EXPECT_EQ(report["result"]["bytes"], 6 * 300 * 1024);
  EXPECT_EQ(report["result"]["passes"], 6);
  EXPECT_LT(report["result"]["with_fsync"]["gb_per_s"], report["result"]["rate"]["gb_per_s"]);
  EXPECT_EQ(fs::file_size(path("data")), 300u * 1024);
}

TEST_F(BenchTool, TimeIsTheTotalHoweverOftenItRepeats) {
  make("data", 1 << 20);
  Json report;
  EXPECT_TRUE(wait_until([&] {
    report = told({"data", "--time", "0.5", "--repeat", "5", "--ramp", "0"});
    return !report["result"]["rate"]["low"].is_null();
  }));
  EXPECT_EQ(report["result"]["passes"], 5);
  EXPECT_GE(report["result"]["seconds"], 0.5);
}

TEST_F(BenchTool, ReadsAllFilesBelowAFolder) {
  make("one", 100'000);
  fs::create_directories(path("model/part"));
  make("model/a", 70'001);
  make("model/part/b", 1);
  make("model/empty", 0);
  const Json report = told({"model", "one", "--bs", "4k", "--repeat", "2", "--threads", "2"});
  EXPECT_EQ(report["result"]["bytes"], 2 * 170'002);
  EXPECT_EQ(report["settings"]["files"], Json({"model/a", "model/part/b", "one"}));
  EXPECT_EQ(report["settings"]["file"], "model and 1 more");
}

TEST_F(BenchTool, TakesSeveralFilesOnlyToRead) {
  fs::create_directory(path("model"));
  make("model/a", 5000);
  make("one", 5000);
  for (const Words& more : std::vector<Words>{{"model", "--rw", "write", "--overwrite"},
                                              {"one", "model/a", "--rw", "write", "--overwrite"},
                                              {"model", "--size", "100"},
                                              {"one", "model/a", "--offset", "100"}}) {
    Words words = {"bench"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished done = run(words);
    EXPECT_EQ(done.exit_code, 2) << done.err;
  }
  fs::create_directory(path("bare"));
  EXPECT_EQ(run({"bench", "bare"}).exit_code, 1);
}

TEST_F(BenchTool, WarnsOfRequestsThatNoDriveCanServeAsTheyAre) {
  make("data", 1 << 20);
  const Finished done = run({"bench", "data", "--direct", "--bs", "100", "--repeat", "1", "--size", "64k"});
  if (done.err.find("O_DIRECT") != std::string::npos) GTEST_SKIP() << "the file system does not take O_DIRECT";
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.out.find("warning: --bs 100 is no multiple of "), std::string::npos) << done.out;
}

TEST_F(BenchTool, CountsEachLatencyInTheHistogram) {
  make("data", 1 << 20);
  const Json report = told({"data", "--bs", "4k", "--repeat", "2", "--histogram"});
  std::uint64_t operations = 0;
  for (const Json& bar : report["result"]["latency_histogram"]) operations += bar["operations"].get<std::uint64_t>();
  EXPECT_EQ(operations, 512u);
  const Finished done = run({"bench", "data", "--bs", "4k", "--repeat", "1", "--histogram"});
  EXPECT_NE(done.out.find("from us  below us  operations"), std::string::npos) << done.out;
}

// Lines of a log, without the names of the columns: begin, end, bytes, ...
std::vector<std::vector<double>> lines_of(const std::string& text) {
  std::vector<std::vector<double>> lines;
  std::istringstream all(text);
  std::string line;
  std::getline(all, line);
  while (std::getline(all, line)) {
    std::istringstream cells(line);
    std::vector<double> numbers;
    for (std::string cell; std::getline(cells, cell, ',');) numbers.push_back(std::stod(cell));
    lines.push_back(numbers);
  }
  return lines;
}

TEST_F(BenchTool, LogsEveryByteInIntervalsThatFollowEachOther) {
  make("data", 1 << 20);
  const Json report = told({"data", "--time", "0.5", "--bs", "64k", "--log", "log.csv", "--interval", "0.1"});
  const auto lines = lines_of(text_of(path("log.csv")));
  ASSERT_GE(lines.size(), 4u);
  double bytes = 0, operations = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i][0], i == 0 ? 0 : lines[i - 1][1]);
    bytes += lines[i][2];
    operations += lines[i][4];
  }
  EXPECT_EQ(bytes, report["result"]["bytes"].get<double>());
  EXPECT_EQ(operations, report["result"]["operations"].get<double>());
}

TEST_F(BenchTool, ALogThatIsThereIsOnlyReplacedWhereThatWasAskedFor) {
  make("data", 5000);
  make("log.csv", 10);
  EXPECT_EQ(run({"bench", "data", "--repeat", "1", "--log", "log.csv"}).exit_code, 2);
  EXPECT_EQ(fs::file_size(path("log.csv")), 10u);
  EXPECT_EQ(run({"bench", "data", "--repeat", "1", "--log", "log.csv", "--overwrite"}).exit_code, 0);
  EXPECT_TRUE(text_of(path("log.csv")).starts_with("begin_s,")) << text_of(path("log.csv"));
  EXPECT_EQ(run({"bench", "data", "--repeat", "1", "--log", "absent/log.csv"}).exit_code, 1);
  EXPECT_EQ(run({"bench", "data", "--interval", "0.1"}).exit_code, 2);
  EXPECT_EQ(run({"bench", "data", "--log", "l.csv", "--interval", "0"}).exit_code, 2);
  EXPECT_EQ(folder(), (Words{"data", "log.csv"}));
}

TEST_F(BenchTool, ThatIsInterruptedKeepsItsLogUpToThen) {
  const pid_t tool = start({"bench", "data", "--rw", "write", "--create", "--size", "1M", "--time", "60", "--log",
                            "log.csv", "--interval", "0.01", "--ramp", "0"});
  ASSERT_TRUE(wait_until([&] { return has_bytes("data"); }));
  kill(tool, SIGINT);
  const Finished done = wait(tool);
  EXPECT_EQ(done.signal_number, SIGINT) << done.err;
  EXPECT_EQ(folder(), Words{"log.csv"});
  EXPECT_TRUE(text_of(path("log.csv")).starts_with("begin_s,"));
}

}  // namespace
}  // namespace penstock::tools
