// SPDX-License-Identifier: Apache-2.0

#include "tools/check/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace penstock::tools::validate {

std::string list_text(const std::vector<std::string>& names) {
  constexpr std::size_t kNamesMax = 8;
  const std::size_t shown = std::min(names.size(), kNamesMax);
  const auto first = names.begin();
  std::string text = fmt::format("{}", fmt::join(first, first + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

namespace {

// Findings that say the same of several things, once.
struct Saying {
  const facts::Finding* row;
  std::vector<std::string> subjects;
};
using Sayings = std::vector<Saying>;

// Sayings with one remedy, which is told once, and what follows from them.
struct Matter {
  Sayings sayings;
  Sayings consequences;
};
using Matters = std::vector<Matter>;

void add_to(Sayings& sayings, const facts::Finding& row, std::string subject) {
  const auto says_it = [&](const Saying& one) {
    return std::string_view(one.row->code) == row.code && one.row->sentence == row.sentence;
  };
  auto found = std::find_if(sayings.begin(), sayings.end(), says_it);
  if (found == sayings.end()) found = sayings.insert(found, {&row, {}});
  if (!subject.empty()) found->subjects.push_back(std::move(subject));
}

template <typename IsMeant>
Matters matters_of(const facts::Findings& rows, IsMeant is_meant) {
  Matters matters;
  for (const facts::Finding& row : rows) {
    if (!is_meant(row)) continue;
    const auto has_its_remedy = [&](const Matter& one) {
      const facts::Finding& first = *one.sayings.front().row;
      return std::string_view(first.code) == row.code && first.remedy == row.remedy;
    };
    auto found = std::find_if(matters.begin(), matters.end(), has_its_remedy);
    if (found == matters.end()) found = matters.insert(found, Matter{});
    add_to(found->sayings, row, subject_text(row));
  }
  return matters;
}

// Nobody keeps data where the firmware looks for what it starts.
bool is_storage(const facts::Finding& row) {
  return std::string_view(row.code) == "storage" && row.subject != "/boot" && !row.subject.starts_with("/boot/");
}

// A way that another takes the place of has no consequence, a folder without one has.
bool is_felt(const facts::Finding& row) { return row.state != facts::State::not_applicable || is_storage(row); }

void add_consequences(Matter& matter, const facts::Findings& rows) {
  for (const facts::Finding& row : rows) {
    if (!row.follows_from || !is_felt(row)) continue;
    const facts::Finding& cause = cause_of(rows, row);
    const facts::Finding& first = *matter.sayings.front().row;
    const bool is_its = std::string_view(cause.code) == first.code && cause.remedy == first.remedy;
    if (is_its && &cause != &row) add_to(matter.consequences, row, row.subject);
  }
}

// "closed: Linux 5.4 is too old" below "Linux 5.4 is too old" is "closed".
std::string without_cause(const std::string& sentence, const Matter& matter) {
  const std::string& cause = matter.sayings.front().row->sentence;
  if (!sentence.ends_with(cause)) return sentence;
  std::string rest = sentence.substr(0, sentence.size() - cause.size());
  rest.erase(rest.find_last_not_of(": ") + 1);
  return rest.empty() ? "the same" : rest;
}

std::string text_of(const Saying& saying) {
  const std::string what = list_text(saying.subjects);
  return (what.empty() ? "" : what + ": ") + saying.row->sentence;
}

void add_matter(Page& page, const Matter& matter, Color color) {
  for (const Saying& saying : matter.sayings) {
    page.wrap(fmt::format("  {:<24} ", saying.row->code), text_of(saying));
    page.paint(color, saying.row->code);
  }
  const std::string& remedy = matter.sayings.front().row->remedy;
  if (!remedy.empty()) page.wrap(fmt::format("  {:<21} -> ", ""), remedy);
  for (const Saying& saying : matter.consequences) {
    const std::string what = list_text(saying.subjects);
    page.wrap(fmt::format("  {:<21} so ", ""), fmt::format("{}{}{}: {}", saying.row->code, what.empty() ? "" : " ",
                                                           what, without_cause(saying.row->sentence, matter)));
  }
}

void add_matters(Page& page, const std::string& title, const Matters& matters, Color color, std::size_t most = 8) {
  if (matters.empty()) return;
  page.section(title);
  for (std::size_t i = 0; i < std::min(matters.size(), most); ++i) add_matter(page, matters[i], color);
  if (matters.size() > most) page.wrap("  ", fmt::format("and {} more, among all rows", matters.size() - most));
}

// Where the bytes go, first of all.
void add_reach(Page& page, const facts::Findings& rows) {
  constexpr std::pair<facts::Reach, const char*> kWays[] = {
      {facts::Reach::now, "directly, if the path's self-test passes"},
      {facts::Reach::unknown, "through host memory, unless a direct path works, which only a try tells"},
      {facts::Reach::once_set, "through host memory, until settings allow a direct path"},
      {facts::Reach::no, "through host memory: no direct path serves it"},
      {facts::Reach::nowhere, "not at all: no path may serve it as the settings are"}};
  bool is_first = true;
  for (const auto& [reach, way] : kWays) {
    std::vector<std::string> places;
    for (const facts::Finding& row : rows) {
      if (row.reach == reach && is_storage(row)) places.push_back(row.subject);
    }
    if (places.empty()) continue;
    if (std::exchange(is_first, false)) page.section("How bytes of GPU memory go, as the machine is set");
    page.wrap("  ", fmt::format("{}: {}", list_text(places), way));
  }
}

// Lost data first, then what bars direct paths, then what slows them; a network's settings last.
int order_of(const Matter& matter) {
  const std::string_view code = matter.sayings.front().row->code;
  const auto is_any = [&](std::initializer_list<std::string_view> codes) {
    return std::find(codes.begin(), codes.end(), code) != codes.end();
  };
  if (is_any({"nvme_target"})) return 0;
  if (!matter.consequences.empty()) return 1;
  if (is_any({"pcie_link", "transport"})) return 2;
  return is_any({"locked_memory", "rdma_port", "roce_v2_gid", "rdma_mtu", "ecn", "pfc"}) ? 4 : 3;
}

bool is_cause(const facts::Finding& row) { return row.state == facts::State::fail && !row.follows_from; }

bool is_open_question(const facts::Finding& row) {
  const bool is_settled = row.state == facts::State::pass || row.state == facts::State::fail;
  return !is_settled && !row.remedy.empty() && !row.follows_from;
}

bool is_in_the_way(const facts::Finding& row) {
  const bool is_doubt = std::string_view(row.code) == "path" && row.state == facts::State::unknown;
  return is_open_question(row) && (is_doubt || is_storage(row));
}

bool could_be_better(const facts::Finding& row) {
  const std::string_view code = row.code;
  return is_open_question(row) && !is_in_the_way(row) && (code == "path" || code == "pcie_link");
}

}  // namespace

std::string sayings_text(const std::vector<const facts::Finding*>& rows) {
  Sayings sayings;
  for (const facts::Finding* const row : rows) add_to(sayings, *row, row->subject);
  std::string text;
  for (const Saying& saying : sayings) text += (text.empty() ? "" : "; ") + text_of(saying);
  return text;
}

namespace {

Matters faults_of(const facts::Findings& rows) {
  Matters wrong = matters_of(rows, is_cause);
  for (Matter& matter : wrong) add_consequences(matter, rows);
  const auto is_worse = [](const Matter& a, const Matter& b) { return order_of(a) < order_of(b); };
  std::stable_sort(wrong.begin(), wrong.end(), is_worse);
  return wrong;
}

}  // namespace

void add_summary(Page& page, const facts::Findings& rows) {
  add_reach(page, rows);
  add_matters(page, "What is wrong", faults_of(rows), Color::red);
  add_matters(page, "What keeps storage from a direct path, or may", matters_of(rows, is_in_the_way), Color::red);
  add_matters(page, "What is no fault, and could be better", matters_of(rows, could_be_better), Color::yellow);
}

void add_rest(Page& page, const facts::Findings& rows, const std::set<std::string>& told) {
  constexpr std::size_t kFaultsMax = 4;
  Matters wrong = faults_of(rows);
  std::erase_if(wrong, [&](const Matter& one) { return told.contains(one.sayings.front().row->remedy); });
  add_matters(page, told.empty() ? "What is wrong" : "What else is wrong", wrong, Color::red, kFaultsMax);
  const auto is_else = [](const facts::Finding& row) {
    return could_be_better(row) && std::string_view(row.code) != "path";
  };
  add_matters(page, "What is no fault, and could be better", matters_of(rows, is_else), Color::yellow);
}

void add_unknown(Page& page, const facts::Findings& rows) {
  const auto is_untold = [](const facts::Finding& row) {
    // How bytes of each storage go is told before.
    const bool is_told = is_in_the_way(row) || could_be_better(row) || std::string_view(row.code) == "storage";
    return row.state == facts::State::unknown && !row.follows_from && !is_told;
  };
  add_matters(page, "What nothing here tells", matters_of(rows, is_untold), Color::yellow);
}

}  // namespace penstock::tools::validate
