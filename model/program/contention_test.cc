// SPDX-License-Identifier: Apache-2.0

// The built `penstock-model contention` from outside: exit codes, what it prints, what it leaves on disk.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fakes/browser.h"
#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

Names contention(Names more) {
  Names all = {"contention", "--size", "16M"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

TEST_F(Tool, ContentionTellsEachStreamsRateAndWhatBinds) {
  const Finished done = run(contention({"--machine", "two-switch-server"}));

  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_TRUE(says(done.out, "binding: switch")) << done.out;
  EXPECT_TRUE(says(done.out, "gpu7")) << done.out;
  EXPECT_EQ(done.err, "");
}

TEST_F(Tool, ContentionSaysWhereAnIommuMayHaveBytesArriveWrong) {
  const auto notes = [&](Names more) {
    more.insert(more.end(), {"--machine", "dgx-h100"});
    const Names arguments = contention(more);
    Names as_json = arguments;
    as_json.emplace_back("--json");
    const bool is_told = says(run(arguments).out, "may arrive wrong, and nothing reports it");
    EXPECT_EQ(json::parse(run(as_json).out)["notes"].size(), is_told ? 1u : 0u);
    return is_told;
  };
  EXPECT_TRUE(notes({"--iommu", "strict"}));
  EXPECT_TRUE(notes({"--iommu", "strict", "--pattern", "nic"}));
  EXPECT_FALSE(notes({"--iommu", "passthrough"}));
  EXPECT_FALSE(notes({"--iommu", "strict", "--path", "pinned"})) << "between devices and host memory it translates";
  call_it("penstock");
  EXPECT_EQ(run({"help", "iommu_translating"}).exit_code, 0);
}

TEST_F(Tool, ContentionIsTheSameForASeedAndAnotherForAnother) {
  const Names arguments = contention({"--machine", "dgx-h100", "--pattern", "striped", "--json"});
  Names other = arguments;
  other.insert(other.end(), {"--seed", "2"});

  EXPECT_EQ(run(arguments).out, run(arguments).out);
  EXPECT_NE(run(arguments).out, run(other).out);
}

TEST_F(Tool, ContentionInJsonAddsUp) {
  const Finished done = run(contention({"--machine", "dgx-h100", "--sweep", "--sensitivity", "--json"}));

  ASSERT_EQ(done.exit_code, 0) << done.err;
  const json report = json::parse(done.out);
  std::uint64_t bytes = 0;
  for (const json& stream : report["streams"]) {
    bytes += stream["bytes"].get<std::uint64_t>();
    EXPECT_LE(stream["latency"]["p50_s"], stream["latency"]["p99_s"]);
  }
  EXPECT_EQ(bytes, 8U << 24);
  EXPECT_EQ(report["bytes"], bytes);
  for (const json& station : report["stations"]) EXPECT_LE(station["utilisation"].get<double>(), 1.0001);
  EXPECT_EQ(report["sweep"]["points"].size(), 8U);
  EXPECT_EQ(report["sweep"]["best_streams"], 8);
  EXPECT_FALSE(report["sensitivity"]["influences"].empty());
}

TEST_F(Tool, ContentionReadsThePrintedTopologyAsTheSameMachine) {
  std::ofstream(path("machine.yaml")) << run({"contention", "--machine", "dgx-2", "--print-topology"}).out;

  const json from_file = json::parse(run(contention({"--topology", "machine.yaml", "--json"})).out);
  const json built_in = json::parse(run(contention({"--machine", "dgx-2", "--json"})).out);

  EXPECT_EQ(from_file["streams"], built_in["streams"]);
}

TEST_F(Tool, ContentionReadsACapturedHost) {
  const std::string machines = PENSTOCK_MACHINES;
  const Finished done = run(contention({"--this-host", "--root", machines + "dgx-h100"}));
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_TRUE(says(done.out, "IOMMU: passthrough")) << done.out;

  EXPECT_EQ(run(contention({"--this-host", "--root", machines + "firecracker-vm"})).exit_code, 77);
}

TEST_F(Tool, ContentionTakesDrivesFromWhatBenchMeasured) {
  const std::string results = PENSTOCK_SOURCE_DIR "/test/fixtures/bench/host.json";
  const Names one = {"--machine", "workstation", "--pair", "nvme0=gpu0", "--json"};
  Names measured = one;
  measured.insert(measured.end(), {"--calibrate", results});

  const Finished done = run(contention(measured));

  ASSERT_EQ(done.exit_code, 0) << done.err;
  const double rate = json::parse(done.out)["bytes_per_second"].get<double>();
  EXPECT_GT(rate, 1.5e9);  // A virtual disk of some 2 GB/s instead of a Gen5 drive.
  EXPECT_LT(rate, 2.2e9);
  EXPECT_EQ(run(contention({"--calibrate", "absent.json"})).exit_code, 1);
}

TEST_F(Tool, ContentionShowsStaleDataAndWhatFencesDoAboutThem) {
  Names relaxed = contention({"--pattern", "pipeline", "--ordering", "relaxed", "--io-size", "16k", "--burst", "4k"});
  const Finished done = run(relaxed);
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_TRUE(says(done.out, text_of(std::string(PENSTOCK_GOLDEN) + "/orderings.txt"))) << done.out;
  relaxed.emplace_back("--json");
  const json report = json::parse(run(relaxed).out);
  ASSERT_EQ(report["orderings"].size(), 4U);
  EXPECT_GT(report["orderings"][0]["stale_ios"], 0);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(report["orderings"][i]["stale_bytes"], 0);

  const json strict = json::parse(run(contention({"--pattern", "pipeline", "--json"})).out);
  EXPECT_TRUE(strict["orderings"].empty());
  EXPECT_EQ(run(contention({"--ordering", "relaxed"})).exit_code, 2);  // No pipeline.
  EXPECT_EQ(run(contention({"--pattern", "pipeline", "--ordering", "relaxed", "--level", "flow"})).exit_code, 2);
}

TEST_F(Tool, ContentionWritesATraceForViewers) {
  const Finished done = run(contention({"--machine", "workstation", "--trace", "run.json"}));

  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_TRUE(text_of(path("run.json")).starts_with("{\"traceEvents\":[{\"ph\":\"M\"")) << text_of(path("run.json"));
  EXPECT_EQ(run(contention({"--machine", "workstation", "--trace", "run.json"})).exit_code, 2);
  EXPECT_EQ(run(contention({"--level", "flow", "--trace", "other.json"})).exit_code, 2);
  const Finished nowhere = run(contention({"--trace", "no/such/folder/run.json"}));
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_TRUE(says(nowhere.err, "no/such/folder")) << nowhere.err;
}

TEST_F(Tool, ContentionLeavesAPageThatDrawsItsTreeAndItsStreams) {
  const Finished done = run(contention({"--machine", "two-switch-server", "--sweep", "--html", "run.html"}));
  if (done.exit_code == 77) GTEST_SKIP() << "built without Chart.js (libjs-chart.js)";
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const std::string page = text_of(path("run.html"));
  EXPECT_EQ(page.find("<script src"), std::string::npos);
  EXPECT_EQ(page.find("<link"), std::string::npos);
  EXPECT_EQ(run(contention({"--html", "run.html"})).exit_code, 2);
  if (browser().empty()) GTEST_SKIP() << "no Chromium here; Debian's package chromium-headless-shell has one";

  const std::string dom = opened(page);

  EXPECT_TRUE(says(dom, "<body data-plots=\"9\">")) << dom.substr(0, 2000);  // Eight streams and the sweep.
  std::size_t links = 0;
  for (std::size_t at = dom.find("data-link="); at != std::string::npos; at = dom.find("data-link=", at + 1)) ++links;
  EXPECT_EQ(links, 20U);  // Two switches, eight GPUs, eight drives, two NICs.
  EXPECT_TRUE(says(dom, "crossbar down: ")) << "no figures for the pointer";
}

TEST_F(Tool, ContentionOfAFleetHasAPageWithoutATree) {
  const Finished done = run({"contention", "--machine", "fleet", "--level", "flow", "--html", "run.html"});
  if (done.exit_code == 77) GTEST_SKIP() << "built without Chart.js (libjs-chart.js)";
  ASSERT_EQ(done.exit_code, 0) << done.err;
  if (browser().empty()) GTEST_SKIP() << "no Chromium here; Debian's package chromium-headless-shell has one";
  EXPECT_TRUE(says(opened(text_of(path("run.html"))), "too many parts to be drawn"));
}

TEST_F(Tool, ContentionRunsAPipelineAndCountsItsFences) {
  const Finished done =
      run(contention({"--pattern", "pipeline", "--fence", "single", "--stage-depth", "8,8,2,2", "--json"}));
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const json report = json::parse(done.out);
  EXPECT_EQ(report["streams"].size(), 8U);
  EXPECT_NEAR(report["streams"][0]["fence_s"].get<double>(), 1024e-6, 1e-9);  // 16 MiB have 1,024 chunks of 16 KiB.
  for (const char* wrong : {"", "x", "1,2", "1,2,3,4,5", "-1", "8,", "99999999999"}) {
    EXPECT_EQ(run(contention({"--pattern", "pipeline", "--stage-depth", wrong})).exit_code, *wrong == 0 ? 0 : 2)
        << wrong;
  }
}

TEST_F(Tool, ContentionDoesNotReplaceATimelineUnasked) {
  std::ofstream(path("run.json")) << "mine";
  EXPECT_EQ(run(contention({"--machine", "workstation", "--trace", "run.json"})).exit_code, 2);
  EXPECT_EQ(text_of(path("run.json")), "mine");
  EXPECT_EQ(run(contention({"--machine", "workstation", "--trace", "run.json", "--overwrite"})).exit_code, 0);
  EXPECT_NE(text_of(path("run.json")), "mine");
}

TEST_F(Tool, ContentionOfATopologysOwnStreamsRefusesOptionsThatWouldNotReachThem) {
  std::ofstream(path("own.yaml")) << "nodes:\n  - {name: cpu, kind: root}\n"
                                     "  - {name: gpu0, kind: gpu, parent: cpu, generation: 5, width: 16}\n"
                                     "  - {name: nvme0, kind: drive, parent: cpu, generation: 4, width: 4}\n"
                                     "streams:\n  - {gpu: gpu0, stores: [nvme0], name: mine, total_bytes: 1000000}\n";
  const Names own = {"contention", "--topology", "own.yaml"};
  const auto with = [&](Names more) {
    more.insert(more.begin(), own.begin(), own.end());
    return run(more);
  };

  EXPECT_TRUE(says(with({}).out, "mine"));
  EXPECT_EQ(with({"--depth", "1"}).exit_code, 2);
  EXPECT_TRUE(says(with({"--depth", "1"}).err, "--depth would change nothing: own.yaml brings its own streams"));
  const Finished replaced = with({"--pattern", "own-drive", "--size", "16M", "--depth", "1"});
  EXPECT_EQ(replaced.exit_code, 0) << replaced.err;
  EXPECT_FALSE(says(replaced.out, "mine")) << replaced.out;
}

TEST_F(Tool, ContentionOfAFleetAnswersAtFlowLevel) {
  const Finished done = run({"contention", "--machine", "fleet", "--level", "flow", "--pattern", "striped", "--json"});

  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(json::parse(done.out)["streams"].size(), 1024U);
  EXPECT_NEAR(json::parse(done.out)["bytes_per_second"].get<double>() / 3.2e12, 1, 0.01);
}

TEST_F(Tool, ContentionRefusesMistakesWithFileAndLine) {
  std::ofstream(path("bad.yaml")) << "nodes:\n  - {name: cpu, kind: root}\n"
                                     "  - {name: gpu0, kind: gpu, parent: cpu, generation: 5, width: .nan}\n";
  const Finished done = run(contention({"--topology", "bad.yaml"}));

  EXPECT_EQ(done.exit_code, 2);
  EXPECT_TRUE(says(done.err, "bad.yaml:3: width must be a number")) << done.err;
  EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1);
}

TEST_F(Tool, ContentionRefusesWrongUsage) {
  for (const Names& usage : std::vector<Names>{{"--machine", "abacus"},
                                               {"--machine", "dgx-2", "--this-host"},
                                               {"--depth", "0"},
                                               {"--io-size", "0"},
                                               {"--burst", "0"},
                                               {"--root", "/tmp"},
                                               {"--pair", "nvme0"},
                                               {"--pair", "nvme0=gpu99"},
                                               {"--pattern", "circle"},
                                               {"--set", "pcie.moon=1"},
                                               {"--set", "pcie.stream_change=nan"},
                                               {"--size", "1000T", "--burst", "128"},
                                               {"--level", "flow", "--trace", "run.json"},
                                               {"--topology", "missing.yaml"}}) {
    const Finished done = run(contention(usage));
    EXPECT_EQ(done.exit_code, 2) << usage[0] << " " << usage.back() << ": " << done.err;
    EXPECT_NE(done.err, "");
  }
}

TEST_F(Tool, ContentionSetsItselfBesideWhatWasPublished) {
  const Finished done = run({"contention", "--published", "--json"});

  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_GE(json::parse(done.out)["points"].size(), 20U);
}

}  // namespace
}  // namespace penstock::tools
