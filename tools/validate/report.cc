// SPDX-License-Identifier: Apache-2.0

#include "tools/validate/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "tools/common/failure.h"
#include "tools/common/page.h"

namespace penstock::tools::validate {
namespace {

constexpr State kStates[] = {State::pass, State::fail, State::unknown, State::not_applicable};
constexpr const char* kNotTried =
    "RDMA devices, nvidia-fs and GPUs with P2PDMA: what is said of them was tested on captured, composed and emulated "
    "machines, never on such hardware";

std::size_t count_of(const Rows& rows, State state) {
  return static_cast<std::size_t>(
      std::count_if(rows.begin(), rows.end(), [&](const Row& row) { return row.state == state; }));
}

const char* word_of(State state) { return state == State::not_applicable ? "n/a" : state_name(state); }

Color color_of(State state) {
  return state == State::pass ? Color::green : state == State::fail ? Color::red : Color::yellow;
}

void add_row(Page& page, const Row& row) {
  const std::string subject = row.subject.empty() ? "" : row.subject + ": ";
  page.wrap(fmt::format("  {:<7} {:<24} ", word_of(row.state), row.code), subject + row.sentence);
  if (row.state != State::not_applicable) page.paint(color_of(row.state), word_of(row.state));
  if (!row.remedy.empty()) page.wrap(fmt::format("  {:<7} {:<21} -> ", "", ""), row.remedy);
  if (row.state == State::fail && !row.source.empty()) {
    page.wrap(fmt::format("  {:<7} {:<24} ", "", ""), "by: " + row.source);
  }
}

// Rows that say the same of several things, once.
struct Group {
  const Row* row;
  std::vector<std::string> subjects;
};

template <typename IsMeant>
std::vector<Group> groups_of(const Rows& rows, IsMeant is_meant) {
  std::vector<Group> groups;
  for (const Row& row : rows) {
    if (!is_meant(row)) continue;
    const auto says_it = [&](const Group& group) {
      return std::string_view(group.row->code) == row.code && group.row->sentence == row.sentence;
    };
    auto found = std::find_if(groups.begin(), groups.end(), says_it);
    if (found == groups.end()) found = groups.insert(found, {&row, {}});
    if (!row.subject.empty()) found->subjects.push_back(row.subject);
  }
  return groups;
}

void add_groups(Page& page, const std::string& title, const std::vector<Group>& groups, Color color) {
  constexpr std::size_t kSubjectsMax = 4, kGroupsMax = 8;
  if (groups.empty()) return;
  page.section(title);
  for (std::size_t i = 0; i < std::min(groups.size(), kGroupsMax); ++i) {
    const Group& group = groups[i];
    const std::size_t shown = std::min(group.subjects.size(), kSubjectsMax);
    std::string what = fmt::format(
        "{}", fmt::join(group.subjects.begin(), group.subjects.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
    if (shown < group.subjects.size()) what += fmt::format(" and {} more", group.subjects.size() - shown);
    page.wrap(fmt::format("  {:<24} ", group.row->code), (what.empty() ? "" : what + ": ") + group.row->sentence);
    page.paint(color, group.row->code);
    page.wrap(fmt::format("  {:<21} -> ", ""), group.row->remedy);
  }
  if (groups.size() > kGroupsMax)
    page.wrap("  ", fmt::format("and {} more, among the rows below", groups.size() - kGroupsMax));
}

// First what a person is to do something about: all rows come below.
void add_findings(Page& page, const Rows& rows) {
  const auto is_failure = [](const Row& row) { return row.state == State::fail; };
  // Of the others, what says why bytes take no better path or a slower link, and what would change that.
  const auto is_worth_a_look = [](const Row& row) {
    const std::string_view code = row.code;
    const bool is_other = row.state == State::unknown || row.state == State::not_applicable;
    return is_other && !row.remedy.empty() && (code == "storage" || code == "path" || code == "pcie_link");
  };
  add_groups(page, "What is wrong", groups_of(rows, is_failure), Color::red);
  add_groups(page, "What may be worth a look", groups_of(rows, is_worth_a_look), Color::yellow);
}

// Of what does not apply, as the layers of containers, a few rows a code are enough for people; JSON has them all.
void add_rows(Page& page, const Rows& rows, Layer layer) {
  constexpr std::size_t kSameMax = 4;
  std::map<std::string_view, std::size_t> seen;
  for (const Row& row : rows) {
    if (row.layer != layer) continue;
    if (row.state != State::not_applicable || ++seen[row.code] <= kSameMax) add_row(page, row);
  }
  for (const auto& [code, count] : seen) {
    if (count <= kSameMax) continue;
    page.wrap(fmt::format("  {:<7} {:<24} ", "n/a", code),
              fmt::format("and {} more of these; --json lists them", count - kSameMax));
  }
}

std::string failures_text(const Rows& rows) {
  std::string text;
  for (const Row& row : rows) {
    if (row.state != State::fail) continue;
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", row.code, row.subject.empty() ? "" : " " + row.subject);
  }
  return text;
}

void add_verdict(Page& page, const Rows& rows) {
  page.section("Verdict");
  const std::size_t failed = count_of(rows, State::fail);
  const std::size_t passed = count_of(rows, State::pass);
  const char* const verdict = failed > 0   ? "something is wrong"
                              : passed > 0 ? "nothing failed"
                                           : "nothing could be judged";
  page.wrap("  ", fmt::format("{}: {} passed, {} failed, {} unknown, {} not applicable", verdict, passed, failed,
                              count_of(rows, State::unknown), count_of(rows, State::not_applicable)));
  page.paint(failed > 0 ? Color::red : passed > 0 ? Color::green : Color::yellow, verdict);
  if (failed > 0) page.wrap("  what failed, with its remedy above: ", failures_text(rows));
  page.wrap("  never tried on real hardware: ", kNotTried);
}

}  // namespace

const char* state_name(State state) {
  switch (state) {
    case State::pass: return "pass";
    case State::fail: return "fail";
    case State::unknown: return "unknown";
    case State::not_applicable: return "not_applicable";
  }
  return "unknown";
}

const char* layer_title(Layer layer) {
  switch (layer) {
    case Layer::drivers: return "Layer 1, drivers and peer access";
    case Layer::fabric: return "Layer 2, fabric and links";
    case Layer::transfer: return "Layer 3, one transfer for each folder";
  }
  return "";
}

int exit_code_of(const Rows& rows) {
  if (count_of(rows, State::fail) > 0) return kFailed;
  return count_of(rows, State::pass) > 0 ? kSuccess : kNotApplicable;
}

Text report_text(const Rows& rows, const std::vector<Layer>& layers, const std::string& root) {
  Page page;
  page.wrap("", fmt::format("Penstock {}: {}", penstock_version(),
                            root.empty() ? "this machine" : "the captured machine in " + root));
  add_findings(page, rows);
  for (const Layer layer : layers) {
    page.section(layer_title(layer));
    add_rows(page, rows, layer);
  }
  add_verdict(page, rows);
  return page.shown();
}

Json report_json(const Rows& rows, const std::vector<Layer>& layers, const std::string& root) {
  Json numbers = Json::array(), list = Json::array(), counts = Json::object();
  for (const Layer layer : layers) numbers.push_back(static_cast<int>(layer));
  for (const Row& row : rows) {
    list.push_back({{"layer", static_cast<int>(row.layer)},
                    {"code", row.code},
                    {"subject", row.subject},
                    {"state", state_name(row.state)},
                    {"sentence", row.sentence},
                    {"remedy", row.remedy},
                    {"source", row.source.empty() ? Json(nullptr) : Json(row.source)},
                    {"details", row.details}});
  }
  for (const State state : kStates) counts[state_name(state)] = count_of(rows, state);
  return {{"schema", 1},
          {"version", penstock_version()},
          {"root", root.empty() ? Json(nullptr) : Json(root)},
          {"layers", numbers},
          {"rows", list},
          {"counts", counts},
          {"not_tried", kNotTried},
          {"exit_code", exit_code_of(rows)}};
}

}  // namespace penstock::tools::validate
