// SPDX-License-Identifier: Apache-2.0

#include "model/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "fakes/browser.h"
#include "model/checkpoint_report.h"
#include "model/registration_report.h"

namespace penstock::model {
namespace {

Report small() {
  Report report{"small", "A </script><b>title"};
  report.sheets = {{"one", "One", {{"name", "name"}, {"x", "x"}}, {{"a, \"b\"", 1.5}, {nullptr, 0.1}}}};
  return report;
}

// What the page holds between its data tags, read back.
Json embedded_in(const std::string& html) {
  const std::string begin = "id=\"data\">";
  const std::size_t from = html.find(begin) + begin.size();
  return Json::parse(html.substr(from, html.find("</script>", from) - from));
}

TEST(Report, ThePageHoldsExactlyTheJson) {
  EXPECT_EQ(embedded_in(to_html(small())), to_json(small()));
  const Report report = registration_report({}, Constants(), true);
  EXPECT_EQ(embedded_in(to_html(report)), to_json(report));
}

TEST(Report, ThePageNeedsNothingElse) {
  const std::string html = to_html(registration_report({}, Constants(), true));
  for (const char* fetched : {"<link", "src=", "@import", "url(", "https://", "fetch(", "XMLHttpRequest", "import("}) {
    EXPECT_EQ(html.find(fetched), std::string::npos) << fetched;
  }
  EXPECT_LT(html.size(), 200'000u);
}

TEST(Report, TextCannotEndTheScriptThatHoldsIt) {
  const std::string html = to_html(small());
  EXPECT_EQ(html.find("</script><b>"), std::string::npos);
  EXPECT_EQ(embedded_in(html)["title"], "A </script><b>title");
}

TEST(Report, CsvQuotesWhatNeedsIt) { EXPECT_EQ(to_csv(small()), "name,x\n\"a, \"\"b\"\"\",1.5\n,0.1\n"); }

TEST(Report, WhatIsNotFiniteIsNull) {
  EXPECT_TRUE(number(std::nan("")).is_null());
  EXPECT_TRUE(number(HUGE_VAL).is_null());
  EXPECT_EQ(number(2), 2.0);
}

// ---- In a browser --------------------------------------------------------------------------------------------------

// Every number that the tables of the page show, in their order.
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

std::vector<double> numbers_of(const Sheet& sheet) {
  std::vector<double> numbers;
  for (const auto& row : sheet.rows) {
    for (const Json& cell : row) {
      if (cell.is_number()) numbers.push_back(cell.get<double>());
    }
  }
  return numbers;
}

TEST(Page, InABrowserTheSurfaceIsDrawnAndTheTablesShowTheNumbersOfTheJson) {
  if (browser().empty()) GTEST_SKIP() << "no Chromium here; Debian's package chromium-headless-shell has one";
  const Report report = registration_report({}, Constants(), true);
  const std::string dom = opened(to_html(report));
  std::smatch cells;
  ASSERT_TRUE(std::regex_search(dom, cells, std::regex("<body[^>]*data-cells=\"([0-9]+)\""))) << dom.substr(0, 2000);
  EXPECT_GT(std::stoi(cells[1]), 60);
  EXPECT_NE(dom.find(">65536</td>"), std::string::npos);  // Whole numbers are shown with all their digits.
  for (const Sheet& sheet : report.sheets) EXPECT_EQ(numbers_shown(dom, sheet.name), numbers_of(sheet)) << sheet.name;
}

TEST(Page, InABrowserThePlotHasALineForEachPath) {
  if (browser().empty()) GTEST_SKIP() << "no Chromium here; Debian's package chromium-headless-shell has one";
  const Constants constants;
  const Report report = checkpoint_report(checkpoint_examples(constants)[2].input, constants, true);
  const std::string dom = opened(to_html(report));
  const std::regex line("<polyline points=\"[0-9]");
  EXPECT_EQ(std::distance(std::sregex_iterator(dom.begin(), dom.end(), line), std::sregex_iterator()), 4);
  for (const Sheet& sheet : report.sheets) EXPECT_EQ(numbers_shown(dom, sheet.name), numbers_of(sheet)) << sheet.name;
}

}  // namespace
}  // namespace penstock::model
