// SPDX-License-Identifier: Apache-2.0

#include "tools/stats/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "tools/common/page.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

using Json = nlohmann::ordered_json;
using core::Op;

constexpr std::size_t kSparkLeast = 8;
constexpr std::size_t kReasonLeast = 6;
constexpr const char* kNoReason = "none";  // The best path was taken.

struct Share {
  std::string name;
  double part = 0;  // 0 to 1.
};

// The shares of the bytes, by path or by reason, the largest first.
std::vector<Share> shares(const Ways& ways, std::size_t part_of_key) {
  std::map<std::string, double> bytes;
  double sum = 0;
  for (const auto& [key, count] : ways) {
    bytes[part_of_key == 0 ? std::get<0>(key) : std::get<1>(key)] += static_cast<double>(count.bytes);
    sum += static_cast<double>(count.bytes);
  }
  std::vector<Share> all;
  for (const auto& [name, some] : bytes) {
    if (some > 0) all.push_back({name, some / sum});
  }
  std::stable_sort(all.begin(), all.end(), [](const Share& a, const Share& b) { return a.part > b.part; });
  return all;
}
std::vector<Share> shares_of_paths(const Ways& ways) { return shares(ways, 0); }
std::vector<Share> shares_of_reasons(const Ways& ways) { return shares(ways, 1); }

std::string list_of(const std::vector<Share>& all) {
  std::string list;
  for (const Share& one : all) {
    list += fmt::format("{}{} {:.0f} %", list.empty() ? "" : ", ", one.name, 100 * one.part);
  }
  return list.empty() ? "-" : list;
}

std::string path_cell(const Ways& ways) {
  const std::vector<Share> all = shares_of_paths(ways);
  if (all.empty()) return "-";
  return all[0].part > 0.995 ? all[0].name : fmt::format("{} {:.0f} %", all[0].name, 100 * all[0].part);
}

// The reason that affects the most bytes.
std::string reason_cell(const Ways& ways) {
  for (const Share& one : shares_of_reasons(ways)) {
    if (one.name != kNoReason) return one.name;
  }
  return "-";
}

std::string gpu_cell(const std::vector<unsigned>& gpus) { return fmt::format("{}", fmt::join(gpus, ",")); }

std::string rate_cell(double rate) { return rate > 0 ? fmt::format("{:.3f}", rate / 1e9) : "-"; }

// Draws one block for each of the last looks, in eighths of the fastest rate.
std::string spark(const std::deque<double>& history, std::size_t width) {
  constexpr const char* kBlocks[] = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                     "\u2585", "\u2586", "\u2587", "\u2588"};
  const std::size_t shown = std::min(width, history.size());
  const double most = history.empty() ? 0 : *std::max_element(history.begin(), history.end());
  std::string line(width - shown, ' ');
  for (auto rate = history.end() - static_cast<std::ptrdiff_t>(shown); rate != history.end(); ++rate) {
    line += kBlocks[most > 0 ? static_cast<std::size_t>(8 * *rate / most + 0.5) : 0];
  }
  return line;
}

// The widths of the columns that vary.
struct Layout {
  std::size_t columns = 0;
  std::size_t gpu = 0;  // 0: no process reports GPUs.
  std::size_t reason = 0;
  std::size_t spark = 0;  // 0: there is no room for it.
};

Layout layout_of(const MachineRate& machine, std::size_t columns, bool has_blocks) {
  constexpr std::size_t kFixed = 63;  // The columns up to the reason, and the gap behind it.
  Layout layout{columns, 0, kReasonLeast, 0};
  for (const ProcessRate& one : machine.processes) {
    if (!one.gpus.empty()) layout.gpu = std::max<std::size_t>({layout.gpu, 3, gpu_cell(one.gpus).size()});
    layout.reason = std::max(layout.reason, reason_cell(one.moved.ways).size());
  }
  const std::size_t fixed = kFixed + (layout.gpu > 0 ? layout.gpu + 1 : 0);
  const std::size_t left = columns > fixed ? columns - fixed : 0;
  layout.reason = std::clamp(layout.reason, kReasonLeast, std::max(left, kReasonLeast));
  const std::size_t rest = left > layout.reason ? left - layout.reason - 1 : 0;
  if (has_blocks && rest >= kSparkLeast) layout.spark = std::min(rest, kHistoryMost);
  return layout;
}

struct Cells {
  std::string pid, command, read, written, path, gpu, reason;
};

std::string line_of(const Cells& cells, const Layout& layout) {
  std::string line = fmt::format("{:>7} {:<15} {:>9} {:>12}  {:<14} ", cells.pid, cut(cells.command, 15), cells.read,
                                 cells.written, cut(cells.path, 14));
  if (layout.gpu > 0) line += fmt::format("{:<{}} ", cells.gpu, layout.gpu);
  return line + fmt::format("{:<{}}", cut(cells.reason, layout.reason), layout.reason);
}

Text shown(std::string line, std::size_t columns) {
  if (line.size() > columns) line = cut(line, std::max<std::size_t>(columns, 3));
  line.erase(line.find_last_not_of(' ') + 1);
  return Text(line);
}

Text process_line(const ProcessRate& one, const Layout& layout) {
  const Ways& ways = one.moved.ways;
  const Cells cells{fmt::format("{}", one.pid),
                    one.command,
                    rate_cell(one.moved.rate(Op::read)),
                    rate_cell(one.moved.rate(Op::write)),
                    path_cell(ways),
                    gpu_cell(one.gpus),
                    reason_cell(ways)};
  Text line = shown(line_of(cells, layout), layout.columns);
  // Blocks have more bytes than columns, so they stand behind everything that may be cut.
  if (layout.spark > 0) {
    const std::size_t end = layout.columns - layout.spark - 1;
    line = Text(fmt::format("{:<{}} {}", line.string(), end, spark(one.history, layout.spark)));
  }
  return line;
}

std::string list_of(const std::vector<DriveRate>& drives) {
  std::string list;
  for (const DriveRate& one : drives) {
    list += fmt::format("{}{} read {}, written {}, busy {:.0f} %", list.empty() ? "" : "; ", one.name,
                        format_rate(one.read), format_rate(one.written), 100 * one.busy);
  }
  return list.empty() ? "idle" : list;
}

std::vector<std::string> head_of(const TopView& view) {
  const MachineRate& machine = view.machine;
  const std::size_t count = machine.processes.size();
  const Moved& moved = machine.moved;
  return {fmt::format("penstock stats: {} process{}, read {}, written {}", count, count == 1 ? "" : "es",
                      format_rate(moved.rate(Op::read)), format_rate(moved.rate(Op::write))),
          fmt::format("by path:   {}", paths_text(moved.ways)),
          fmt::format("by reason: {}", list_of(shares_of_reasons(moved.ways))),
          fmt::format("drives:    {}", list_of(view.drives)), ""};
}

std::vector<std::string> notes_of(const MachineRate& machine) {
  std::vector<std::string> notes;
  for (const ProcessRate& one : machine.processes) {
    if (!one.refusal.empty()) notes.push_back(fmt::format("process {}: {}", one.pid, one.refusal));
  }
  if (machine.hidden > 0) notes.push_back(machine.why_hidden);
  if (machine.not_looked_at > 0) {
    notes.push_back(fmt::format("{} process{} looked at in part only: one look has limits", machine.not_looked_at,
                                machine.not_looked_at == 1 ? " was" : "es were"));
  }
  return notes;
}

// A table of at most so many rows.
std::vector<Text> table_of(const MachineRate& machine, const Layout& layout, std::size_t rows) {
  const auto& processes = machine.processes;
  if (processes.empty()) return {shown("no process that this user may look at has a session open", layout.columns)};
  std::vector<Text> lines = {
      shown(line_of({"pid", "command", "read GB/s", "written GB/s", "path", "gpu", "reason"}, layout), layout.columns)};
  const std::size_t room = std::max<std::size_t>(rows, 2) - 1;
  const std::size_t listed = processes.size() <= room ? processes.size() : room - 1;
  for (std::size_t i = 0; i < listed; ++i) lines.push_back(process_line(processes[i], layout));
  if (listed < processes.size()) {
    lines.push_back(shown(fmt::format("{:>7} more, that move less", processes.size() - listed), layout.columns));
  }
  return lines;
}

Json ways_json(const Moved& moved) {
  Json json = Json::array();
  if (moved.seconds <= 0) return json;
  for (const auto& [key, count] : moved.ways) {
    const auto& [path, reason, op] = key;
    json.push_back({{"path", path},
                    {"reason", reason},
                    {"op", core::op_name(op)},
                    {"bytes_per_second", static_cast<double>(count.bytes) / moved.seconds},
                    {"operations_per_second", static_cast<double>(count.operations) / moved.seconds}});
  }
  return json;
}

void add_rates(Json& json, const Moved& moved) {
  json["read_bytes_per_second"] = moved.rate(Op::read);
  json["written_bytes_per_second"] = moved.rate(Op::write);
  json["ways"] = ways_json(moved);
}

}  // namespace

std::string paths_text(const Ways& ways) { return list_of(shares_of_paths(ways)); }

std::vector<Text> top_page(const TopView& view, Screen::Size size, bool has_blocks) {
  const MachineRate& machine = view.machine;
  const std::vector<std::string> head = head_of(view), notes = notes_of(machine);
  std::vector<Text> lines;
  for (const std::string& line : head) lines.push_back(shown(line, size.columns));
  const std::size_t around = head.size() + (notes.empty() ? 0 : 1 + notes.size());
  const Layout layout = layout_of(machine, size.columns, has_blocks);
  for (Text& line : table_of(machine, layout, size.rows > around ? size.rows - around : 0)) {
    lines.push_back(std::move(line));
  }
  if (!notes.empty()) lines.emplace_back();
  for (const std::string& note : notes) lines.push_back(shown(note, size.columns));
  if (lines.size() > size.rows) lines.resize(size.rows);
  return lines;
}

Json top_json(const TopView& view) {
  const MachineRate& machine = view.machine;
  Json json = {{"seconds", machine.moved.seconds}};
  add_rates(json, machine.moved);
  json["processes"] = Json::array();
  for (const ProcessRate& one : machine.processes) {
    Json process = {{"pid", one.pid}, {"command", one.command}};
    add_rates(process, one.moved);
    process["gpus"] = one.gpus;
    if (!one.refusal.empty()) process["refused"] = one.refusal;
    json["processes"].push_back(std::move(process));
  }
  json["drives"] = Json::array();
  for (const DriveRate& one : view.drives) {
    json["drives"].push_back({{"name", one.name},
                              {"read_bytes_per_second", one.read},
                              {"written_bytes_per_second", one.written},
                              {"busy", one.busy}});
  }
  json["hidden_processes"] = machine.hidden;
  json["processes_not_looked_at"] = machine.not_looked_at;
  return json;
}

}  // namespace penstock::tools
