// SPDX-License-Identifier: Apache-2.0

#include "model/latency.h"

#include <fmt/format.h>

#include "model/input.h"
#include "model/published.h"
#include "model/words.h"

namespace penstock::model {
namespace {

using enum Constant;

double copy_rate(const LatencyInput& input, const Constants& constants) {
  return constants[input.is_write ? kPageCacheWrite : kPageableCopy];
}

struct Hop {
  const char* component;
  double bytes_per_s;
  double latency_s;
  const char* used_by;
};

std::vector<Hop> hops_of(const LatencyInput& input, const Constants& constants) {
  std::vector<Hop> hops = {
      {"GPU memory", constants[kGpuMemory], constants[kGpuMemoryLatency], "all paths"},
      {"PCIe between GPU and host", constants[kPcieLink], constants[kPcieLatency], "through the host"},
      {"pinned host memory", constants[kHostMemory], constants[kHostMemoryLatency], "through the host"},
      {"the CPU's copy, page cache", copy_rate(input, constants), constants[kHostMemoryLatency], "the page cache"},
      {"drive", input.drive_bytes_per_s, constants[kFileLatency], "all paths"}};
  if (input.network_bytes_per_s > 0) {
    hops.push_back({"network", input.network_bytes_per_s, constants[kNetworkLatency], "all paths"});
  }
  return hops;
}

Sheet hops_sheet(const LatencyInput& input, const Constants& constants) {
  Sheet sheet{"hops",
              "Hops",
              {{"hop", "hop"},
               {"component", "component"},
               {"bytes_per_s", "rate"},
               {"latency_s", "latency, s"},
               {"transfer_s", "this I/O, s"},
               {"used_by", "on the way of"}},
              {}};
  int number = 0;
  for (const Hop& hop : hops_of(input, constants)) {
    sheet.rows.push_back({++number, hop.component, hop.bytes_per_s, hop.latency_s,
                          hop.latency_s + input.bytes / hop.bytes_per_s, hop.used_by});
  }
  return sheet;
}

Sheet paths_sheet(const LatencyInput& input, const Constants& constants) {
  Sheet sheet{"paths",
              fmt::format("One {} of {}, alone", input.is_write ? "write" : "read", size_in_words(input.bytes)),
              {{"path", "path"},
               {"media_s", "media, s"},
               {"network_s", "network, s"},
               {"links_s", "links, s"},
               {"copies_s", "CPU's copies, s"},
               {"total_s", "in all, s"},
               {"times_direct", "times direct"},
               {"host_memory_bytes", "through host memory, B"}},
              {}};
  const double direct_s = latency_of(LatencyPath::kDirect, input, constants).total_s();
  for (const LatencyPath path : kLatencyPaths) {
    const Latency one = latency_of(path, input, constants);
    sheet.rows.push_back({latency_path_name(path), one.media_s, one.network_s, one.links_s, one.copies_s, one.total_s(),
                          one.total_s() / direct_s, one.host_memory_bytes});
  }
  return sheet;
}

}  // namespace

std::string_view latency_path_name(LatencyPath path) {
  switch (path) {
    case LatencyPath::kDirect: return "direct";
    case LatencyPath::kPinned: return "host, pinned, O_DIRECT";
    case LatencyPath::kPageCache: return "host, page cache";
  }
  return "";
}

Latency latency_of(LatencyPath path, const LatencyInput& input, const Constants& constants) {
  const double bytes = input.bytes;
  Latency latency{};
  latency.media_s = constants[kFileLatency] + bytes / input.drive_bytes_per_s;
  if (input.network_bytes_per_s > 0) latency.network_s = constants[kNetworkLatency] + bytes / input.network_bytes_per_s;
  // The first DMA overlaps the media; only its latency remains.
  latency.links_s = constants[kPcieLatency] + constants[kGpuMemoryLatency];
  if (path == LatencyPath::kDirect) return latency;
  latency.links_s += constants[kPcieLatency] + bytes / constants[kPcieLink];
  latency.host_memory_bytes = 2 * bytes;
  if (path == LatencyPath::kPinned) return latency;
  latency.copies_s = constants[kHostMemoryLatency] + bytes / copy_rate(input, constants);
  latency.host_memory_bytes = 4 * bytes;
  return latency;
}

Report latency_report(const LatencyInput& input, const Constants& constants, bool with_published) {
  require_positive("the size in bytes", input.bytes, 1e18);
  require_positive("the rate of a drive in B/s", input.drive_bytes_per_s, 1e13);
  require_not_negative("the rate of the network in B/s", input.network_bytes_per_s, 1e13);
  Report report{"latency", "One I/O, hop by hop"};
  report.inputs = {{"bytes", input.bytes},
                   {"is_write", input.is_write},
                   {"drive_bytes_per_s", input.drive_bytes_per_s},
                   {"network_bytes_per_s", input.network_bytes_per_s}};
  report.sheets = {hops_sheet(input, constants), paths_sheet(input, constants)};
  if (with_published) report.sheets.push_back(published_sheet("latency", constants));
  report.csv_sheet = "paths";
  for (const LatencyPath path : kLatencyPaths) {
    report.sensitivities.push_back(
        sensitivity_of(fmt::format("{}, s", latency_path_name(path)), constants,
                       [&](const Constants& c) { return latency_of(path, input, c).total_s(); }));
  }
  report.notes = {
      "One I/O at a time: many of them hide each other's latency, and then the slowest stage counts alone "
      "('penstock-model load', 'penstock-model contention').",
      "Through host memory go two times the bytes of an I/O, in by one DMA engine and out by another; the page cache's "
      "copy reads and writes them once more."};
  return report;
}

}  // namespace penstock::model
