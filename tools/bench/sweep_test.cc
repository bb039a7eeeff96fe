// SPDX-License-Identifier: Apache-2.0

// Tests the built `penstock bench --sweep`, and of its HTML page all that needs no browser.
#include <nlohmann/json.hpp>

#include "fakes/browser.h"
#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class BenchSweep : public Tool {
 protected:
  void SetUp() override { make("data", 1 << 20); }
  Finished sweep(const Words& more) {
    Words words = {"bench", "data", "--repeat", "1", "--ramp", "0", "--sweep", "bs=4k,64k", "depth=1,16"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
};

TEST_F(BenchSweep, MeasuresEveryCombinationInOrder) {
  const Finished done = sweep({"threads=2", "--json"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const Json report = Json::parse(done.out);
  EXPECT_EQ(report["axes"][0]["values"], Json({"4k", "64k"}));
  ASSERT_EQ(report["results"].size(), 4u);
  const Words expected[] = {{"4k", "1", "2"}, {"4k", "16", "2"}, {"64k", "1", "2"}, {"64k", "16", "2"}};
  for (int i = 0; i < 4; ++i) {
    const Json& one = report["results"][static_cast<std::size_t>(i)];
    EXPECT_EQ(one["combination"], Json(expected[i]));
    EXPECT_EQ(one["settings"]["block_size"], i < 2 ? 4096 : 65536);
    EXPECT_EQ(one["settings"]["depth"], i % 2 == 0 ? 1 : 16);
    EXPECT_EQ(one["result"]["bytes"], 1 << 20);
  }
}

TEST_F(BenchSweep, IsATableOrLinesForASpreadsheet) {
  const Finished table = sweep({});
  EXPECT_NE(table.out.find(" bs  depth "), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("4 combinations"), std::string::npos) << table.out;
  const Finished lines = sweep({"--csv"});
  EXPECT_TRUE(lines.out.starts_with("bs,depth,gb_per_s,low,high,")) << lines.out;
  EXPECT_NE(lines.out.find(",cpu_seconds_per_gb,interrupts_per_gb,remarks\n"), std::string::npos) << lines.out;
  EXPECT_EQ(std::count(lines.out.begin(), lines.out.end(), '\n'), 5);
}

TEST_F(BenchSweep, IsReadByTheModels) {
  std::ofstream(path("sweep.json")) << sweep({"--json"}).out;
  const Finished done = run({"model", "compare", "sweep.json", "--json"});
  if (done.exit_code == 77) GTEST_SKIP() << "a build without models";
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(Json::parse(done.out)["sheets"][0]["rows"].size(), 4u);
}

TEST_F(BenchSweep, LeavesAPageWithItsDataAndNoNeedOfANetwork) {
  const Finished done = sweep({"--html", "page.html"});
  if (done.exit_code == 77) GTEST_SKIP() << "built without Chart.js (libjs-chart.js)";
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const std::string page = text_of(path("page.html"));
  const std::string mark = "id=\"data\">";
  const std::size_t begin = page.find(mark) + mark.size();
  const Json data = Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  EXPECT_EQ(data["results"].size(), 4u);
  EXPECT_NE(page.find("Chart.js v3"), std::string::npos);
  EXPECT_EQ(page.find("<script src"), std::string::npos);
  EXPECT_EQ(page.find("<link"), std::string::npos);
  EXPECT_EQ(sweep({"--html", "page.html"}).exit_code, 2);
  EXPECT_EQ(sweep({"--html", "page.html", "--overwrite"}).exit_code, 0);
}

TEST_F(BenchSweep, ShowsItsPlotsAndItsTableInABrowser) {
  if (browser().empty()) GTEST_SKIP() << "no Chromium here; Debian's package chromium-headless-shell has one";
  const std::string hostile = "a</script><b>";  // In the folder "a<".
  fs::create_directory(path("a<"));
  fs::rename(path("data"), path(hostile));
  const Finished done =
      run({"bench", hostile, "--repeat", "1", "--sweep", "bs=4k,64k", "depth=1,16", "--html", "page"});
  if (done.exit_code == 77) GTEST_SKIP() << "built without Chart.js (libjs-chart.js)";
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const std::string dom = opened(text_of(path("page")));
  EXPECT_NE(dom.find("<body data-plots=\"3\">"), std::string::npos) << dom.substr(0, 2000);
  const std::string rows = dom.substr(dom.find("<tbody>"));
  std::size_t count = 0;
  for (std::size_t at = rows.find("<tr>"); at != std::string::npos; at = rows.find("<tr>", at + 1)) ++count;
  EXPECT_EQ(count, 4u);
  EXPECT_NE(dom.find("read of a&lt;/script&gt;&lt;b&gt;"), std::string::npos);
}

TEST_F(BenchSweep, RefusesWhatItCannotSweepBeforeItMeasures) {
  for (const Words& more : std::vector<Words>{{"--sweep", "bs"},
                                              {"--sweep", "=4k"},
                                              {"--sweep", "bs="},
                                              {"--sweep", "bs=4k,,8k"},
                                              {"--sweep", "bs=4k,4k"},
                                              {"--sweep", "bs=4k", "bs=8k"},
                                              {"--sweep", "depth=1,0"},
                                              {"--sweep", "seed=1,2"},
                                              {"--csv"},
                                              {"--html", "page.html"},
                                              {"--sweep", "bs=4k", "--verify"}}) {
    Words words = {"bench", "data"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished done = run(words);
    EXPECT_EQ(done.exit_code, 2) << more.back() << ": " << done.err;
  }
  EXPECT_EQ(folder(), Words{"data"});
}

}  // namespace
}  // namespace penstock::tools
