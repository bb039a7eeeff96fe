// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/timeline_trace.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace penstock::model {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMicroseconds = 1e6;       // In a second.
constexpr int kStreams = 1, kStations = 2;  // The processes.

class Trace {
 public:
  explicit Trace(const Outcome& outcome) : outcome_(outcome) {}

  void name(int process, const char* what) {
    events_.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", process}, {"args", {{"name", what}}}});
  }
  void bar(std::size_t row, const StreamResult& stream) {
    const auto thread = static_cast<std::uint64_t>(row + 1);
    events_.push_back(
        {{"ph", "M"}, {"name", "thread_name"}, {"pid", kStreams}, {"tid", thread}, {"args", {{"name", stream.name}}}});
    events_.push_back({{"ph", "X"},
                       {"name", stream.name},
                       {"pid", kStreams},
                       {"tid", thread},
                       {"ts", kMicroseconds * stream.begin_seconds},
                       {"dur", kMicroseconds * (stream.end_seconds - stream.begin_seconds)},
                       {"args", {{"bytes", stream.bytes}, {"GB/s", stream.bytes_per_second / kGiga}}}});
  }
  // Writes one value per bin, as a rate per second, and none if it is unchanged.
  void counter(int process, const std::string& name, const char* unit, const Timeline& timeline, std::size_t row,
               double scale) {
    double before = -1;
    for (std::size_t bin = 0; bin < Timeline::kBins; ++bin) {
      const double begin = static_cast<double>(bin) * timeline.bin_seconds();
      const double span = std::min(timeline.bin_seconds(), outcome_.seconds - begin);
      if (span <= 0) break;
      const double value = std::round(1000 * scale * timeline.at(row, bin) / span) / 1000;
      if (value != before) add(process, name, unit, begin, value);
      before = value;
    }
    if (before > 0) add(process, name, unit, outcome_.seconds, 0);
  }

  std::string text(const std::string& title) const {
    const Json json = {
        {"traceEvents", events_}, {"displayTimeUnit", "ns"}, {"otherData", {{"title", title}, {"simulated", true}}}};
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

 private:
  void add(int process, const std::string& name, const char* unit, double seconds, double value) {
    events_.push_back(
        {{"ph", "C"}, {"name", name}, {"pid", process}, {"ts", kMicroseconds * seconds}, {"args", {{unit, value}}}});
  }

  const Outcome& outcome_;
  Json events_ = Json::array();
};

}  // namespace

std::string timeline_trace(const Network& network, const Outcome& outcome, const std::string& title) {
  Trace trace(outcome);
  trace.name(kStreams, "streams");
  trace.name(kStations, "links and devices");
  for (std::size_t i = 0; i < outcome.streams.size(); ++i) {
    trace.bar(i, outcome.streams[i]);
    trace.counter(kStreams, outcome.streams[i].name, "GB/s", outcome.stream_bytes, i, 1 / kGiga);
  }
  for (std::size_t i = 0; i < network.stations.size(); ++i) {
    if (outcome.stations[i].busy_seconds <= 0) continue;
    trace.counter(kStations, network.stations[i].name, "busy %", outcome.station_busy, i, 100);
  }
  return trace.text(title);
}

}  // namespace penstock::model
