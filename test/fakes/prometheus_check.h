// SPDX-License-Identifier: Apache-2.0

// Reads Prometheus's text format, and OpenMetrics, and says what is wrong with a page, as promtool would. For tests.
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
