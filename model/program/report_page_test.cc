// SPDX-License-Identifier: Apache-2.0

// The page that `penstock-model ... --html` writes, as a headless browser renders it.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "fakes/browser.h"
#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

class ModelPage : public Tool {
 protected:
  bool has_no_plots() {
    const bool none = run({"load", "--html", "probe.html"}).exit_code == 77;
    fs::remove(path("probe.html"));
    return none;
  }
};

TEST_F(ModelPage, HoldsWhatJsonSaysAndIsNotReplacedUnasked) {
  if (has_no_plots()) GTEST_SKIP() << "built without Chart.js (libjs-chart.js)";
  const Finished done = run({"registration", "--json", "--html", "page.html"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const std::string page = text_of(path("page.html"));
  const std::size_t from = page.find("id=\"data\">") + 10;
  json report = json::parse(done.out);
  report.erase("schema");  // Only documents have a schema; the page has none.
  EXPECT_EQ(json::parse(page.substr(from, page.find("</script>", from) - from)), report);
  EXPECT_EQ(run({"load", "--html", "page.html"}).exit_code, 2);
  EXPECT_EQ(text_of(path("page.html")), page);
  EXPECT_EQ(run({"load", "--html", "page.html", "--overwrite"}).exit_code, 0);
  EXPECT_NE(text_of(path("page.html")), page);
  EXPECT_EQ(folder(), Names{"page.html"});
}

TEST_F(ModelPage, ReplacesNoDeviceOrPipe) {
  if (has_no_plots()) GTEST_SKIP() << "built without Chart.js (libjs-chart.js)";
  ASSERT_EQ(mkfifo(path("page.html").c_str(), 0600), 0);
  EXPECT_EQ(run({"load", "--html", "page.html", "--overwrite"}).exit_code, 1);
  EXPECT_TRUE(fs::is_fifo(path("page.html")));
  EXPECT_EQ(folder(), Names{"page.html"});
}

TEST_F(ModelPage, ThatCannotBeWrittenIsAFailure) {
  if (has_no_plots()) GTEST_SKIP() << "built without Chart.js (libjs-chart.js)";
  const Finished done = run({"load", "--html", "absent/page.html"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.err.find("absent"), std::string::npos);
}

TEST_F(ModelPage, NeedsNothingElse) {
  if (has_no_plots()) GTEST_SKIP() << "built without Chart.js (libjs-chart.js)";
  ASSERT_EQ(run({"registration", "--html", "page.html"}).exit_code, 0);
  const std::string page = text_of(path("page.html"));
  for (const char* fetched : {"<link", "<script src", "@import", "fetch(", "XMLHttpRequest", "import("}) {
    EXPECT_EQ(page.find(fetched), std::string::npos) << fetched;
  }
  EXPECT_LT(page.size(), 500'000u);
}

// Every number that a table of the page shows, in their order.
std::vector<double> numbers_shown(const std::string& dom, const std::string& sheet) {
  const std::size_t from = dom.find("<table data-sheet=\"" + sheet + "\"");
  const std::string table = dom.substr(from, dom.find("</table>", from) - from);
  const std::regex value("data-value=\"([^\"]*)\"");
  std::vector<double> numbers;
  for (auto it = std::sregex_iterator(table.begin(), table.end(), value); it != std::sregex_iterator(); ++it) {
    numbers.push_back(std::stod((*it)[1]));
  }
  return numbers;
}

std::vector<double> numbers_of(const json& sheet) {
  std::vector<double> numbers;
  for (const json& row : sheet["rows"]) {
    for (const json& cell : row) {
      if (cell.is_number()) numbers.push_back(cell.get<double>());
    }
  }
  return numbers;
}

TEST_F(ModelPage, InABrowserTheSurfaceIsDrawnAndTheTablesShowTheNumbersOfTheJson) {
  if (has_no_plots()) GTEST_SKIP() << "built without Chart.js (libjs-chart.js)";
  if (browser().empty()) GTEST_SKIP() << "no Chromium here; Debian's package chromium-headless-shell has one";
  const json report = json::parse(run({"registration", "--example", "--json", "--html", "page.html"}).out);
  const std::string dom = opened(text_of(path("page.html")));
  std::smatch cells;
  ASSERT_TRUE(std::regex_search(dom, cells, std::regex("<body[^>]*data-cells=\"([0-9]+)\""))) << dom.substr(0, 2000);
  EXPECT_GT(std::stoi(cells[1]), 60);
  EXPECT_NE(dom.find(">65536</td>"), std::string::npos);  // Whole numbers are shown with all their digits.
  for (const json& sheet : report["sheets"]) EXPECT_EQ(numbers_shown(dom, sheet["name"]), numbers_of(sheet)) << sheet;
}

TEST_F(ModelPage, InABrowserThePlotHasALineForEachColumn) {
  if (has_no_plots()) GTEST_SKIP() << "built without Chart.js (libjs-chart.js)";
  if (browser().empty()) GTEST_SKIP() << "no Chromium here; Debian's package chromium-headless-shell has one";
  const json report = json::parse(run({"checkpoint", "--example", "140gb", "--json", "--html", "page.html"}).out);
  const std::string dom = opened(text_of(path("page.html")));
  const std::string lines = "data-lines=\"" + std::to_string(report["plots"][0]["y"].size()) + "\"";
  EXPECT_NE(dom.find(lines), std::string::npos) << lines;
  for (const json& sheet : report["sheets"]) EXPECT_EQ(numbers_shown(dom, sheet["name"]), numbers_of(sheet)) << sheet;
}

}  // namespace
}  // namespace penstock::tools
