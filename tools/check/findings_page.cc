// SPDX-License-Identifier: Apache-2.0

#include "tools/check/findings_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "tools/check/summary.h"
#include "tools/common/page.h"

namespace penstock::tools::validate {
namespace {

using facts::Finding;
using facts::FindingName;
using facts::Findings;
using facts::Layer;
using facts::State;

constexpr State kStates[] = {State::pass, State::fail, State::unknown, State::not_applicable};
constexpr const char* kNotTried =
    "what is said about RDMA devices, nvidia-fs and GPUs with P2PDMA was tested on captured, composed and emulated "
    "machines, never on such hardware";

std::size_t count_of(const Findings& rows, State state) {
  return static_cast<std::size_t>(
      std::count_if(rows.begin(), rows.end(), [&](const Finding& row) { return row.state == state; }));
}

std::string name_text(const FindingName& name) { return name.code + (name.subject.empty() ? "" : " " + name.subject); }

Color color_of(State state) {
  return state == State::pass ? Color::green : state == State::fail ? Color::red : Color::yellow;
}

void add_row(Page& page, const Finding& row) {
  const std::string subject = subject_text(row);
  page.wrap(fmt::format("  {:<7} {:<24} ", word_of(row.state), row.code),
            (subject.empty() ? "" : subject + ": ") + row.sentence);
  if (row.state != State::not_applicable) page.paint(color_of(row.state), word_of(row.state));
  const std::string remedy =
      row.follows_from ? fmt::format("Follows from {}.", name_text(*row.follows_from)) : row.remedy;
  if (!remedy.empty()) page.wrap(fmt::format("  {:<7} {:<21} -> ", "", ""), remedy);
  if (row.state == State::fail && !row.source.empty()) {
    page.wrap(fmt::format("  {:<7} {:<24} ", "", ""), "by: " + row.source);
  }
}

// Rows that do not apply, such as the layers of containers, are cut to a few for each code; JSON has them all.
void add_rows(Page& page, const Findings& rows, Layer layer) {
  constexpr std::size_t kSameMax = 4;
  std::map<std::string_view, std::size_t> seen;
  for (const Finding& row : rows) {
    if (row.layer != layer) continue;
    if (row.state != State::not_applicable || ++seen[row.code] <= kSameMax) add_row(page, row);
  }
  for (const auto& [code, count] : seen) {
    if (count <= kSameMax) continue;
    page.wrap(fmt::format("  {:<7} {:<24} ", "n/a", code),
              fmt::format("and {} more of these; --json lists them", count - kSameMax));
  }
}

// Counts the findings that fail and follow from no other.
std::size_t causes_of(const Findings& rows) {
  return static_cast<std::size_t>(std::count_if(
      rows.begin(), rows.end(), [](const Finding& row) { return row.state == State::fail && !row.follows_from; }));
}

void add_result(Page& page, const Findings& rows, const std::string& verdict) {
  page.section("Result of the checks");
  const std::size_t failed = count_of(rows, State::fail), causes = causes_of(rows);
  const std::string text = result_text(rows, verdict);
  page.wrap("  ", text);
  page.paint(failed > 0                        ? Color::red
             : count_of(rows, State::pass) > 0 ? Color::green
                                               : Color::yellow,
             std::string_view(text).substr(0, text.find(':')));
  if (failed > 0) {
    const std::size_t rest = failed - causes;
    page.wrap("  ",
              fmt::format("{} cause{}, listed first with {}{}", causes, causes == 1 ? "" : "s",
                          causes == 1 ? "its remedy" : "their remedies",
                          rest == 0 ? ""
                                    : fmt::format("; {} more failure{} from {}", rest,
                                                  rest == 1 ? " follows" : "s follow", causes == 1 ? "it" : "them")));
  }
  page.wrap("  never tried on real hardware: ", kNotTried);
}

}  // namespace

const char* word_of(State state) { return state == State::not_applicable ? "n/a" : state_name(state); }

std::string result_text(const Findings& rows, const std::string& verdict) {
  const std::size_t failed = count_of(rows, State::fail), passed = count_of(rows, State::pass);
  const std::size_t warned = count_of(rows, State::warn);
  const char* const of_rows = failed > 0   ? "something is wrong"
                              : passed > 0 ? "nothing failed"
                                           : "nothing could be judged";
  return fmt::format("{}: {} passed, {}{} failed, {} unknown, {} not applicable", verdict.empty() ? of_rows : verdict,
                     passed, warned == 0 ? "" : fmt::format("{} warned, ", warned), failed,
                     count_of(rows, State::unknown), count_of(rows, State::not_applicable));
}

void add_layer(Page& page, const Findings& rows, Layer layer) {
  page.section(layer_title(layer));
  add_rows(page, rows, layer);
}

void add_layers(Page& page, const Findings& rows, const std::vector<Layer>& layers, const std::string& verdict) {
  for (const Layer layer : layers) add_layer(page, rows, layer);
  add_result(page, rows, verdict);
}

Text report_text(const Findings& rows, const std::vector<Layer>& layers, const std::string& root) {
  Page page;
  page.wrap("", fmt::format("Penstock {}: {}", penstock_version(),
                            root.empty() ? "this machine" : "the captured machine in " + root));
  add_summary(page, rows);
  add_layers(page, rows, layers);
  return page.shown();
}

Json report_json(const Findings& rows, const Details& details, const std::vector<Layer>& layers,
                 const std::string& root) {
  Json numbers = Json::array(), list = Json::array(), counts = Json::object();
  for (const Layer layer : layers) numbers.push_back(static_cast<int>(layer));
  for (const Finding& row : rows) {
    const auto detail = details.find(row.subject);
    list.push_back({{"layer", static_cast<int>(row.layer)},
                    {"code", row.code},
                    {"subject", row.subject},
                    {"where", row.where},
                    {"state", state_name(row.state)},
                    {"direct", row.reach == facts::Reach::none ? Json(nullptr) : Json(reach_name(row.reach))},
                    {"sentence", row.sentence},
                    {"remedy", row.remedy},
                    {"follows_from",
                     row.follows_from ? Json{{"code", row.follows_from->code}, {"subject", row.follows_from->subject}}
                                      : Json(nullptr)},
                    {"source", or_null(row.source)},
                    {"details", detail == details.end() || row.code != std::string_view("transfer") ? Json(nullptr)
                                                                                                    : detail->second}});
  }
  for (const State state : kStates) counts[state_name(state)] = count_of(rows, state);
  // The command of the last release (which judges by layers) knows four states, and counts warnings as unknown.
  if (layers.empty()) counts[state_name(State::warn)] = count_of(rows, State::warn);
  else counts[state_name(State::unknown)] = count_of(rows, State::unknown) + count_of(rows, State::warn);
  return {{"schema", 1},
          {"version", penstock_version()},
          {"root", or_null(root)},
          {"layers", numbers},
          {"rows", list},
          {"counts", counts},
          {"causes", causes_of(rows)},
          {"not_tried", kNotTried},
          {"exit_code", exit_code_of(rows)}};
}

}  // namespace penstock::tools::validate
