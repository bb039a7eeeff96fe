// SPDX-License-Identifier: Apache-2.0

#include "model/storage_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/words.h"

namespace penstock::model {
namespace {

constexpr double kMonthSeconds = kMonthHours * 3600;

double saves_a_month(const CostInput& input) { return input.saves / input.hours * kMonthHours; }

double node_hour(const Platform& platform, bool is_spot) {
  return platform.gpus * (is_spot ? *platform.spot : *platform.on_demand);
}

PathModel path_of(const Platform& platform) {
  return platform.gds != GdsStanding::none ? PathModel::kDirect : PathModel::kBounce;
}

bool has_drives(const Platform& platform) { return platform.drives.value_or(1) > 0; }

double shared_rate(bool is_load, const CostInput& input, const Constants& constants) {
  return std::min(input.file_system->rate(is_load), input.fleet.nodes * constants[Constant::kNetworkNode]);
}

double seconds_on(StorageWay way, bool is_load, const Platform& platform, const CostInput& input,
                  const Constants& constants) {
  Job job = input.job;
  job.is_load = is_load;
  Fleet fleet = fleet_of(platform, input);
  if (way == StorageWay::kFileSystem) fleet.fabric_bytes_per_s = shared_rate(is_load, input, constants);
  return duration(path_of(platform), job, fleet, constants).seconds;
}

// Time to drain the drives: the slowest of the drives' reads, the ports and the file system.
double drain_s(const CostInput& input, const Constants& constants) {
  const double drives = input.fleet.nodes * input.fleet.drives * drive_in_use(input.fleet, constants);
  return input.job.bytes / std::min(drives, shared_rate(false, input, constants));
}

StorageRow row_of(const Platform& platform, bool is_spot, StorageWay way, const CostInput& input,
                  const Constants& constants) {
  StorageRow row{&platform, is_spot, way, 0, 0, 0, 0, 0, 0, 0, 0};
  row.save_s = seconds_on(way, false, platform, input, constants);
  row.load_s = seconds_on(way, true, platform, input, constants);
  row.bytes_per_s = input.job.bytes / row.save_s;
  if (way == StorageWay::kDrained) row.drain_s = drain_s(input, constants);
  const Waiting waiting =
      waiting_of(row.save_s, saves_a_month(input), input.fleet.nodes * node_hour(platform, is_spot));
  row.waiting_hours = waiting.hours;
  row.waiting = waiting.money;
  if (way != StorageWay::kFileSystem) row.drives = input.fleet.nodes * platform.drives_hour * kMonthHours;
  if (way != StorageWay::kDrives) row.file_system = input.file_system->month_money;
  return row;
}

std::string_view way_name(StorageWay way) {
  switch (way) {
    case StorageWay::kFileSystem: return "file system alone";
    case StorageWay::kDrained: return "drives, drained";
    case StorageWay::kDrives: return "drives alone";
  }
  return "";
}

// The share of saves that can be drained: "one save in N".
Json drained(const StorageRow& row, const CostInput& input) {
  if (row.drain_s == 0) return {};
  const double each = std::max(1.0, std::ceil(row.drain_s * input.saves / (input.hours * 3600) - 1e-9));
  return each == 1 ? Json("every save") : Json(fmt::format("one save in {}", count_in_words(each)));
}

// $ a month for storage per GB/s of a save; nothing: the file system's price is not known.
Json rate_money(const StorageRow& row, const CostInput& input) {
  if (row.way != StorageWay::kDrives && input.file_system->month_money == 0) return {};
  return (row.drives + row.file_system) / (row.bytes_per_s / 1e9);
}

std::string size_of(const FileSystem& one) {
  return one.terabytes > 0 ? fmt::format(" of {} TB", count_in_words(one.terabytes)) : "";
}

std::string rates_of(const FileSystem& one) {
  const std::string saves = rate_in_words(one.bytes_per_s);
  return one.read_bytes_per_s == 0
             ? saves
             : fmt::format("{} for loads and {} for saves", rate_in_words(one.read_bytes_per_s), saves);
}

Sheet ways_sheet(const std::vector<StorageRow>& rows, const CostInput& input) {
  Sheet sheet{
      "storage",
      fmt::format("Drives of {} node{} against {}{}, {}; a month has {} saves", count_in_words(input.fleet.nodes),
                  input.fleet.nodes == 1 ? "" : "s", input.file_system->name, size_of(*input.file_system),
                  rates_of(*input.file_system), count_in_words(saves_a_month(input))),
      {{"platform", "platform"},
       {"market", "market"},
       {"way", "saves to"},
       {"save_s", "save, s"},
       {"drain_s", "drain, s"},
       {"drained", "drained"},
       {"load_s", "load, s"},
       {"waiting_month_hours", "waiting a month, h"},
       {"waiting_month_money", "the same, $"},
       {"drives_month_money", "drives, $"},
       {"file_system_month_money", "file system, $"},
       {"all_month_money", "all a month, $"},
       {"gb_per_s_month_money", "$ a month per GB/s"}},
      {},
      false,
      "$ a month per GB/s: what drives and file system cost, by the rate of a save. Drives at 0 $ are in the "
      "node's price."};
  for (const StorageRow& row : rows) {
    sheet.rows.push_back({row.platform->name, row.is_spot ? "spot" : "on demand", way_name(row.way), row.save_s,
                          row.drain_s > 0 ? Json(row.drain_s) : Json(), drained(row, input), row.load_s,
                          std::round(100 * row.waiting_hours) / 100, row.waiting, row.drives, row.file_system,
                          row.money(), rate_money(row, input)});
  }
  return sheet;
}

Sheet break_even_sheet(const std::vector<StorageRow>& rows, const CostInput& input, const Constants& constants) {
  Sheet sheet{"storage_break_even",
              "From when on drives that are drained pay against the file system alone",
              {{"platform", "platform"},
               {"market", "market"},
               {"saved_s", "saved by a save, s"},
               {"saves_a_month", "saves a month"},
               {"interval_hours", "one save every, h"},
               {"nodes", "fewest nodes"},
               {"file_system_bytes_per_s", "as cheap: a file system of"},
               {"file_system_month_money", "which costs a month, $"}},
              {}};
  for (const StorageRow& row : rows) {
    if (row.way != StorageWay::kDrained) continue;
    const StorageBreakEven even = storage_break_even(*row.platform, row.is_spot, input, constants);
    const double alone_s = seconds_on(StorageWay::kFileSystem, false, *row.platform, input, constants);
    const double price = input.file_system->month_money / input.file_system->bytes_per_s;
    sheet.rows.push_back({row.platform->name, row.is_spot ? "spot" : "on demand",
                          alone_s > row.save_s ? Json(alone_s - row.save_s) : Json("nothing"),
                          even.saves ? Json(std::ceil(*even.saves)) : Json("never"),
                          !even.saves       ? Json("never")
                          : *even.saves > 0 ? Json(kMonthHours / *even.saves)
                                            : Json("at any rate: the drives cost nothing"),
                          even.nodes ? Json(*even.nodes) : Json(fmt::format("not up to {}", kNodesTried)),
                          even.bytes_per_s ? Json(*even.bytes_per_s) : Json("none: the ports bind"),
                          even.bytes_per_s ? Json(price * *even.bytes_per_s) : Json("none")});
  }
  return sheet;
}

}  // namespace

std::vector<StorageRow> storage_rows(const std::vector<Platform>& platforms, const CostInput& input,
                                     const Constants& constants) {
  std::vector<StorageRow> rows;
  for (const Platform& platform : platforms) {
    for (const bool is_spot : {false, true}) {
      if (!(is_spot ? platform.spot : platform.on_demand)) continue;
      for (const StorageWay way : {StorageWay::kFileSystem, StorageWay::kDrained, StorageWay::kDrives}) {
        if (way != StorageWay::kFileSystem && !has_drives(platform)) continue;
        rows.push_back(row_of(platform, is_spot, way, input, constants));
      }
    }
  }
  return rows;
}

// Per node, the drives cost drives_hour x month, and each save that is faster by s seconds saves node_hour x s.
StorageBreakEven storage_break_even(const Platform& platform, bool is_spot, const CostInput& given,
                                    const Constants& constants) {
  // Price in seconds of a node.
  const double price = platform.drives_hour * kMonthSeconds / node_hour(platform, is_spot);
  const auto saved_s = [&](const CostInput& input) {
    return seconds_on(StorageWay::kFileSystem, false, platform, input, constants) -
           seconds_on(StorageWay::kDrained, false, platform, input, constants);
  };
  StorageBreakEven even;
  const double saved = saved_s(given);
  if (saved > 0) even.saves = price / saved;
  CostInput input = given;
  for (unsigned nodes = 1; nodes <= kNodesTried && !even.nodes; ++nodes) {
    input.fleet.nodes = nodes;
    if (saved_s(input) * saves_a_month(given) > price) even.nodes = nodes;
  }
  const double drives_s = seconds_on(StorageWay::kDrained, false, platform, given, constants);
  const double rate = given.job.bytes / (drives_s + price / saves_a_month(given));
  if (rate <= given.fleet.nodes * constants[Constant::kNetworkNode]) even.bytes_per_s = rate;
  return even;
}

std::string storage_answer(const std::vector<Platform>& platforms, const CostInput& input, const Constants& constants) {
  const std::vector<StorageRow> rows = storage_rows(platforms, input, constants);
  const auto cheaper = [](const StorageRow& a, const StorageRow& b) {
    return node_hour(*a.platform, a.is_spot) < node_hour(*b.platform, b.is_spot);
  };
  const auto least = std::min_element(rows.begin(), rows.end(), cheaper);  // The first way of the platform.
  const StorageRow& shared = *least;
  std::string text =
      fmt::format("On {} node{}, at {} saves of {} a month, a save takes {} and a load {} by {} ({})",
                  count_in_words(input.fleet.nodes), input.fleet.nodes == 1 ? "" : "s",
                  count_in_words(saves_a_month(input)), size_in_words(input.job.bytes), time_in_words(shared.save_s),
                  time_in_words(shared.load_s), input.file_system->name, rates_of(*input.file_system));
  if (!has_drives(*shared.platform)) return text + fmt::format("; {} has no drives.", shared.platform->name);
  const StorageRow& drives = *std::next(least, static_cast<std::ptrdiff_t>(StorageWay::kDrives));
  const double gain = drives.waiting - shared.waiting;
  text += fmt::format(", {} and {} by the nodes' drives: ", time_in_words(drives.save_s), time_in_words(drives.load_s));
  if (gain <= 0)
    return text + "saves gain no time, and it is worth its price only for what drives lose with their node.";
  const std::string price = input.file_system->month_money > 0
                                ? fmt::format(", and it costs {:.2f} $", input.file_system->month_money)
                                : "; what it costs is not known";
  return text + fmt::format("that saves {:.2f} $ a month of waiting for saves on {} {}{}.", gain, shared.platform->name,
                            shared.is_spot ? "at spot prices" : "on demand", price);
}

std::vector<Sheet> storage_sheets(const std::vector<Platform>& platforms, const CostInput& input,
                                  const Constants& constants) {
  const std::vector<StorageRow> rows = storage_rows(platforms, input, constants);
  return {ways_sheet(rows, input), break_even_sheet(rows, input, constants)};
}

std::vector<std::string> storage_notes(const CostInput& input) {
  std::vector<std::string> notes = {
      fmt::format("{}: {}.", input.file_system->name, input.file_system->source),
      "'drives, drained' is lost with its node until it is drained; 'drives alone' always is. Both are taken to be "
      "written while nothing is drained, and the file system to serve this run alone."};
  if (input.file_system->month_money == 0) {
    notes.push_back(fmt::format("{}: no price is known, so it is counted as 0 $.", input.file_system->name));
  }
  return notes;
}

}  // namespace penstock::model
