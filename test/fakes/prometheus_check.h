// SPDX-License-Identifier: Apache-2.0

// Parses Prometheus's text format and OpenMetrics, and reports errors like promtool. For tests.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace penstock::tools {

struct PrometheusPage {
  std::map<std::string, double> values;  // By name with labels, as written.
  std::vector<std::string> faults;
};

PrometheusPage parse_prometheus(const std::string& text);
PrometheusPage parse_openmetrics(const std::string& text);

}  // namespace penstock::tools
