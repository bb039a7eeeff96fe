// SPDX-License-Identifier: Apache-2.0

// Prints the result of `penstock-model contention` as text and as JSON, from the same values.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "model/pcie/network.h"
#include "model/pcie/outcome.h"
#include "model/pcie/published_contention.h"
#include "model/pcie/study.h"

namespace penstock::tools {

struct ContentionReport {
  std::string machine;
  std::string level;  // "packet" or "flow"
  model::Machine parts;
  model::Workload workload;
  model::Network network;
  model::Outcome outcome;
  std::optional<model::Sweep> sweep;
  std::optional<model::Sensitivity> sensitivity;
  std::vector<model::OrderingRow> orderings;  // Empty if the workload has strict ordering.
};

void print_contention(const ContentionReport& report);
nlohmann::ordered_json contention_json(const ContentionReport& report);

void print_published(const std::vector<model::PublishedPoint>& points);
nlohmann::ordered_json published_json(const std::vector<model::PublishedPoint>& points);

}  // namespace penstock::tools
