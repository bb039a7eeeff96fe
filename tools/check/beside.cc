// SPDX-License-Identifier: Apache-2.0

#include "tools/check/beside.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/check/findings_page.h"
#include "tools/check/summary.h"
#include "tools/common/outlook_page.h"
#include "tools/common/page.h"

namespace penstock::tools {
namespace {

using facts::Examination;
using facts::Finding;
using facts::PathOutlook;
using facts::State;

constexpr std::string_view kLinks = "pcie_link";

// The answer of one machine about a path or check.
struct Side {
  int rank = 0;      // The least is the best.
  std::string said;  // Without the names of things, which differ on any two machines.
  std::string text;
  std::string remedy;
};

struct Row {
  std::string name;
  Side a, b;

  bool differs() const { return a.said != b.said; }
};

int rank_of(State state) {
  switch (state) {
    case State::pass: return 0;
    case State::warn: return 1;
    case State::not_applicable: return 2;
    case State::unknown: return 3;
    case State::fail: break;
  }
  return 4;
}

// The check's findings of the worst state that it has there. One that does not apply counts only where all are such.
std::vector<const Finding*> worst_of(const Examination& machine, std::string_view code) {
  const auto badness = [](const Finding& one) { return one.state == State::not_applicable ? -1 : rank_of(one.state); };
  std::vector<const Finding*> worst;
  for (const Finding& one : machine.findings) {
    if (one.code != code || (!worst.empty() && badness(one) < badness(*worst.front()))) continue;
    if (!worst.empty() && badness(one) > badness(*worst.front())) worst.clear();
    worst.push_back(&one);
  }
  return worst;
}

Side side_of(const PathOutlook& path) {
  const std::string headline = headline_of(path);
  return {static_cast<int>(path.standing()), headline, headline, path.remedy()};
}

std::string rate_text(const facts::LinkRates& rates) {
  const std::string least = fmt::format("{:.1f}", rates.least / 1e9), most = fmt::format("{:.1f}", rates.most / 1e9);
  return fmt::format("{}s carry at most {} GB/s", rates.kind, least == most ? most : least + " to " + most);
}

// The rates of one machine's links, by kind of device, for those kinds whose links have other rates on the other.
std::string rates_beside(const Examination& machine, const Examination& other) {
  const std::vector<facts::LinkRates> others = facts::link_rates(other.machine);
  std::string text;
  for (const facts::LinkRates& one : facts::link_rates(machine.machine)) {
    const auto differs = [&](const facts::LinkRates& each) {
      return each.kind == one.kind && rate_text(each) != rate_text(one);
    };
    if (std::any_of(others.begin(), others.end(), differs)) text += (text.empty() ? "" : ", ") + rate_text(one);
  }
  return text;
}

Side side_of(const Examination& machine, std::string_view code) {
  const std::vector<const Finding*> worst = worst_of(machine, code);
  if (worst.empty()) return {rank_of(State::not_applicable), "", "n/a: nothing there that it is about", ""};
  const State state = worst.front()->state;
  std::set<std::string> sentences;
  for (const Finding* one : worst) sentences.insert(one->sentence);
  const std::string said = state == State::not_applicable ? "" : fmt::format("{}", fmt::join(sentences, "; "));
  return {rank_of(state), said, fmt::format("{}: {}", validate::word_of(state), validate::sayings_text(worst)),
          worst.front()->remedy};
}

Row row_of(const Examination& a, const Examination& b, const char* code) {
  Row row{code, side_of(a, code), side_of(b, code)};
  if (std::string_view(code) != kLinks) return row;
  for (const auto& [side, rates] : {std::pair(&row.a, rates_beside(a, b)), std::pair(&row.b, rates_beside(b, a))}) {
    side->said += rates;
    if (!rates.empty()) side->text += "; " + rates;
  }
  return row;
}

std::vector<Row> paths_that_differ(const Examination& a, const Examination& b) {
  std::vector<Row> rows;
  for (const PathOutlook& path : a.whole.paths) {
    rows.push_back({penstock_path_name(path.path), side_of(path), side_of(b.whole.of(path.path))});
  }
  std::erase_if(rows, [](const Row& row) { return !row.differs(); });
  return rows;
}

// The cost of a difference to the machine that is worse by it: the least number is the highest cost.
int cost_of(const Row& row, const Examination& a, const Examination& b) {
  enum { closes_direct_path, causes_others, fails, is_worse, is_no_worse };
  if (row.a.rank == row.b.rank) return is_no_worse;
  const Examination& worse = row.a.rank > row.b.rank ? a : b;
  const std::vector<const Finding*> worst = worst_of(worse, row.name);
  const auto closes = [&](const Finding* one) {
    const auto is_closed = [&](const PathOutlook& path) {
      return facts::is_direct_path(path.path) && ((one->closes | one->doubts) & facts::path_bit(path.path)) != 0;
    };
    return std::any_of(worse.whole.paths.begin(), worse.whole.paths.end(), is_closed);
  };
  const auto is_caused = [&](const Finding& one) { return one.follows_from && one.follows_from->code == row.name; };
  if (std::any_of(worst.begin(), worst.end(), closes)) return closes_direct_path;
  if (std::any_of(worse.findings.begin(), worse.findings.end(), is_caused)) return causes_others;
  return !worst.empty() && worst.front()->state == State::fail ? fails : is_worse;
}

// Costly ones come first. The rows of paths say the same as the paths do.
std::vector<Row> checks_that_differ(const Examination& a, const Examination& b) {
  std::vector<Row> rows;
  for (const Examination* machine : {&a, &b}) {
    for (const Finding& one : machine->findings) {
      const auto is_it = [&](const Row& row) { return row.name == one.code; };
      if (one.code == std::string_view("path") || std::any_of(rows.begin(), rows.end(), is_it)) continue;
      rows.push_back(row_of(a, b, one.code));
    }
  }
  std::erase_if(rows, [](const Row& row) { return !row.differs(); });
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Row& one, const Row& other) { return cost_of(one, a, b) < cost_of(other, a, b); });
  return rows;
}

// Returns the machine with the better way, or less in the way of a direct one, or "" if neither is better.
const char* better_of(const Examination& a, const Examination& b) {
  if (facts::is_more_direct(a.whole, b.whole)) return "A";
  return facts::is_more_direct(b.whole, a.whole) ? "B" : "";
}

bool is_direct(const std::string& better, const Examination& a, const Examination& b) {
  const PathOutlook* const now = better.empty() ? nullptr : (better == "A" ? a : b).whole.first_usable();
  return now != nullptr && facts::is_direct_path(now->path);
}

std::string verdict_of(const std::string& better, const Examination& a, const Examination& b) {
  if (better.empty()) return "neither is more direct than the other";
  if (is_direct(better, a, b)) return better + " is more direct";
  return fmt::format("neither is direct; {} has the better way, or less in the way of a direct one", better);
}

std::string name_of(const Examination& machine) {
  return machine.machine.root.empty() ? "this machine" : "the captured machine in " + machine.machine.root;
}

std::string way_of(const Examination& machine) {
  const std::string counsel = first_counsel(machine.whole);
  return way_text(machine.whole) + (counsel.empty() ? "" : "; " + counsel);
}

void add_rows(Page& page, const std::string& title, const std::vector<Row>& rows, int width) {
  if (rows.empty()) return;
  page.section(title);
  const std::string arrow = fmt::format("  {:<{}}    -> ", "", width);  // Below the machine that it is about.
  for (const Row& row : rows) {
    page.wrap(fmt::format("  {:<{}} A  ", row.name, width), row.a.text);
    if (row.a.rank > row.b.rank && !row.a.remedy.empty()) page.wrap(arrow, row.a.remedy);
    page.wrap(fmt::format("  {:<{}} B  ", "", width), row.b.text);
    if (row.b.rank > row.a.rank && !row.b.remedy.empty()) page.wrap(arrow, row.b.remedy);
  }
}

Json check_json(const Examination& machine, const Examination& other, const std::string& code) {
  const std::vector<const Finding*> worst = worst_of(machine, code);
  Json findings = Json::array();
  for (const Finding* one : worst) {
    findings.push_back({{"subject", one->subject}, {"sentence", one->sentence}, {"remedy", one->remedy}});
  }
  Json json = {{"state", worst.empty() ? Json(nullptr) : Json(state_name(worst.front()->state))},
               {"findings", findings}};
  if (code == kLinks) json["rates"] = rates_beside(machine, other);
  return json;
}

Json machine_json(const char* name, const Examination& machine) {
  return {{"name", name}, {"root", or_null(machine.machine.root)}, {"way", way_of(machine)}};
}

}  // namespace

Text beside_text(const Examination& a, const Examination& b) {
  constexpr int kPathWidth = 10, kCheckWidth = 24;
  Page page;
  page.wrap("", fmt::format("Penstock {}: two machines, where they differ", penstock_version()));
  page.wrap("  A  ", name_of(a));
  page.wrap("  B  ", name_of(b));
  page.section("Verdict");
  const std::string better = better_of(a, b);
  page.wrap("  ", verdict_of(better, a, b));
  page.paint(Color::bold, better);
  page.wrap("  on A ", way_of(a));
  page.wrap("  on B ", way_of(b));
  const std::vector<Row> paths = paths_that_differ(a, b), checks = checks_that_differ(a, b);
  if (paths.empty() && checks.empty()) page.wrap("  ", "no path and no check tells them apart");
  add_rows(page, "Paths that differ, best first", paths, kPathWidth);
  add_rows(page, "Checks that differ, what costs most first", checks, kCheckWidth);
  return page.shown();
}

Json beside_json(const Examination& a, const Examination& b) {
  Json paths = Json::array(), checks = Json::array();
  for (const PathOutlook& path : a.whole.paths) {
    const PathOutlook& other = b.whole.of(path.path);
    if (headline_of(path) == headline_of(other)) continue;
    paths.push_back(
        {{"path", penstock_path_name(path.path)}, {"A", path_outlook_json(path)}, {"B", path_outlook_json(other)}});
  }
  for (const Row& row : checks_that_differ(a, b)) {
    checks.push_back({{"code", row.name}, {"A", check_json(a, b, row.name)}, {"B", check_json(b, a, row.name)}});
  }
  const std::string better = better_of(a, b);
  return {{"schema", 1},
          {"version", penstock_version()},
          {"machines", {machine_json("A", a), machine_json("B", b)}},
          {"more_direct", or_null(is_direct(better, a, b) ? better : "")},
          {"better", or_null(better)},
          {"paths", paths},
          {"checks", checks}};
}

}  // namespace penstock::tools
