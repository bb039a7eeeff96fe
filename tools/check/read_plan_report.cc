// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>

#include "tools/check/read_plan.h"
#include "tools/common/page.h"
#include "tools/common/table.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kReadsShown = 32;

}  // namespace

std::string PlannedRead::placement() const { return gpu_node < 0 ? "auto" : fmt::format("node:{}", gpu_node); }

unsigned ReadPlan::crossings() const {
  const char* const apart = core::distance_name(core::Distance::apart);
  return static_cast<unsigned>(
      std::count_if(reads.begin(), reads.end(), [&](const PlannedRead& read) { return read.relation == apart; }));
}

namespace {

void add_notes(Page& page, const ReadPlan& plan) {
  page.wrap("  ",
            "PENSTOCK_PLACEMENT is for a process that uses this GPU alone: its threads and pinned memory near the GPU. "
            "The default, auto, does the same, where the kernel tells the node.");
  if (const unsigned crossings = plan.crossings(); crossings > 0) {
    page.wrap("  ",
              fmt::format("{} of {} reads cross from one NUMA node to another: move a drive, or read these from a "
                          "drive that others share.",
                          crossings, plan.reads.size()));
  }
  if (plan.left_out > 0) {
    page.wrap("  ",
              fmt::format("Left out: {} whose link the kernel does not report, or beyond the first 256 of a kind.",
                          plan.left_out));
  }
  if (!plan.idle.empty()) {
    page.wrap(
        "  ",
        fmt::format("{} drive{} left over; a stripe over drives of one switch uses them: md, LVM, or a striped object.",
                    plan.idle.size(), plan.idle.size() == 1 ? " is" : "s are"));
  }
}

}  // namespace

std::string read_plan_text(const ReadPlan& plan, const std::vector<BusEnd>& ends) {
  Page page;
  if (!plan.not_made.empty()) {
    page.wrap("  ", "no plan: " + plan.not_made);
    return page.text();
  }
  Table table({"  GPU", "reads from", "over", ">at most", "PENSTOCK_PLACEMENT="});
  for (std::size_t i = 0; i < std::min(plan.reads.size(), kReadsShown); ++i) {
    const PlannedRead& read = plan.reads[i];
    table.add({"  " + read.gpu, facts::end_text(ends, read.drive), read.relation, format_rate(read.bytes_per_second),
               read.placement()});
  }
  page.lines(table.text().string());
  if (plan.reads.size() > kReadsShown) page.wrap("  ", fmt::format("of {}; --json lists them all", plan.reads.size()));
  const std::string bound = plan.bound_by.empty() ? "" : ", held back by " + plan.bound_by;
  page.wrap("  ", fmt::format("In all {}{}; with every GPU reading from all drives {}.",
                              format_rate(plan.bytes_per_second), bound, format_rate(plan.striped_per_second)));
  add_notes(page, plan);
  page.wrap("  ", "By a model of links, with typical drives: 'penstock explain --measure FILE' measures.");
  return page.text();
}

Json read_plan_json(const ReadPlan& plan) {
  if (!plan.not_made.empty()) return {{"not_made", plan.not_made}};
  Json json = {{"reads", Json::array()},        {"bytes_per_second", plan.bytes_per_second},
               {"bound_by", plan.bound_by},     {"striped_bytes_per_second", plan.striped_per_second},
               {"crossings", plan.crossings()}, {"idle_drives", plan.idle},
               {"left_out", plan.left_out}};
  for (const PlannedRead& read : plan.reads) {
    json["reads"].push_back({{"gpu", read.gpu},
                             {"drive", read.drive},
                             {"relation", read.relation},
                             {"placement", read.placement()},
                             {"bytes_per_second", read.bytes_per_second}});
  }
  return json;
}

}  // namespace penstock::tools
