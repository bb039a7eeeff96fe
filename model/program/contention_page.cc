// SPDX-License-Identifier: Apache-2.0

#include "model/program/contention_page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

namespace penstock::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kNodesMost = 400;   // More cannot be told apart on a page.
constexpr std::size_t kStreamsMost = 64;  // Each stream has a picture.
constexpr std::size_t kBinsMost = 64;

// The stations of a node, by the suffix after its name.
constexpr std::string_view kSuffixes[] = {"up",      "down",    "crossbar up", "crossbar down",
                                          "complex", "memory",  "copy",        "to other sockets",
                                          "media",   "wire in", "wire out"};

std::string describes(const model::Node& node) {
  if (node.link.generation == 0) return node.address;
  const std::string link = "PCIe Gen" + std::to_string(node.link.generation) + " x" + std::to_string(node.link.width);
  return node.address.empty() ? link : node.address + ", " + link;
}

Json tree_json(const ContentionReport& report) {
  std::map<std::string, std::size_t> stations;
  for (std::size_t i = 0; i < report.network.stations.size(); ++i) stations[report.network.stations[i].name] = i;
  Json nodes = Json::array();
  for (const model::Node& node : report.parts.nodes) {
    Json own = Json::array();
    for (const std::string_view suffix : kSuffixes) {
      const auto found = stations.find(node.name + " " + std::string(suffix));
      if (found != stations.end()) own.push_back({{"what", suffix}, {"station", found->second}});
    }
    nodes.push_back({{"name", node.name},
                     {"kind", model::node_kind_name(node.kind)},
                     {"parent", node.parent == model::kNone ? Json() : Json(node.parent)},
                     {"facts", describes(node)},
                     {"stations", own}});
  }
  return nodes;
}

// GB/s of each stream in equal intervals of the run.
Json timelines_json(const ContentionReport& report) {
  const model::Timeline& timeline = report.outcome.stream_bytes;
  if (timeline.rows() == 0 || report.outcome.seconds <= 0) return nullptr;
  const auto bins = std::min(model::Timeline::kBins,
                             static_cast<std::size_t>(std::ceil(report.outcome.seconds / timeline.bin_seconds())));
  const std::size_t joined = (bins + kBinsMost - 1) / kBinsMost;
  const double span = timeline.bin_seconds() * static_cast<double>(joined);
  Json rows = Json::array();
  for (std::size_t row = 0; row < std::min(timeline.rows(), kStreamsMost); ++row) {
    Json rates = Json::array();
    for (std::size_t begin = 0; begin < bins; begin += joined) {
      double bytes = 0;
      for (std::size_t i = begin; i < std::min(begin + joined, bins); ++i) bytes += timeline.at(row, i);
      const double left = report.outcome.seconds - static_cast<double>(begin) * timeline.bin_seconds();
      rates.push_back(std::round(bytes / std::min(span, left) / 1e6) / 1e3);
    }
    rows.push_back(std::move(rates));
  }
  return {{"bin_s", span}, {"gb_per_s", rows}};
}

}  // namespace

Json contention_page_json(const ContentionReport& report) {
  Json json = contention_json(report);
  json["nodes"] = report.parts.nodes.size() <= kNodesMost ? tree_json(report) : Json();
  json["timelines"] = timelines_json(report);
  json["streams_drawn_most"] = kStreamsMost;
  return json;
}

}  // namespace penstock::tools
